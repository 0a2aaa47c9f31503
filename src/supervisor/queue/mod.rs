//! Who starts next. Pure: no clock, no actors.
//!
//! **Between tenants** slots are shared by weight, in virtual time (`turn.rs`): each tenant has a
//! tag, the smallest is served, and a start moves it on by the inverse of the tenant's weight.
//! A tenant that comes back from idleness starts at the present, before those who were served
//! already, so its first job starts next; whoever just had its share is remembered until time has
//! caught up with it, so nobody gains by submitting one job at a time.
//!
//! **Inside a tenant** each lane has a line (`line.rs`): by priority, then by arrival. Between its
//! lanes the best first job among those that have room comes next.
//!
//! **Cost.** Each lane keeps the tenants that could start something there in the order of their
//! turns (`lane.rs`). Whatever happens touches one tenant in each lane, so that it costs
//! O(lanes · log n), and no job or tenant is ever searched for. Only `place` counts blocks of a
//! line, one for some hundred jobs. A change of limits looks at every tenant.

mod admission;
mod estimate;
mod fair;
mod hold;
mod lane;
mod limits;
mod line;
mod member;
mod overview;
mod place;
mod turn;

#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod fairness_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;

pub use estimate::Ages;
pub use fair::{Queue, Wish};
pub use hold::{Hold, UnknownLane};
pub use limits::{LaneLimits, QueueLimits, TenantLimits};
pub use overview::{LaneOverview, QueueOverview, TenantOverview};
pub use place::{QueuePlace, WaitsFor};
