//! The queue, which decides which job starts next. Pure: no clock, no actors.
//!
//! **Between tenants** slots are shared by weight, in virtual time (`line.rs`): each tenant has a
//! tag, the smallest is served, and a start moves it on by the inverse of the tenant's weight.
//! A tenant that comes back from idleness starts at the present, before those who were served
//! already, so its first job starts next; whoever just had its share is remembered until time has
//! caught up with it, so nobody gains by submitting one job at a time.
//!
//! **Inside a tenant** each lane has a line (`line.rs`): by priority, then by arrival. Between its
//! lanes the best first job among those that have room comes next.
//!
//! **Cost.** Each lane keeps the tenants that could start something there in the order of their
//! turns (`fair.rs`). Whatever happens touches one tenant in each lane, so that it costs
//! O(lanes · log n), and no job or tenant is ever searched for. Only `place` counts blocks of a
//! line, one for some hundred jobs. A change of limits measurement at every tenant.

mod fair;
mod limits;
mod line;
mod place;

#[cfg(test)]
mod tests;

pub use fair::{EnqueueRequest, Queue};
pub use limits::{Hold, LaneLimits, QueueLimits, TenantLimits, UnknownLane};
pub use place::{Ages, LaneOverview, QueueOverview, QueuePosition, TenantOverview, WaitsFor};
