//! JMESPath queries on output that is JSON or JSON lines, in bounded memory.
//!
//! A JMESPath interpreter that allocates each value separately needs about 30 times the size of the
//! text. Here a `JsonDocument` is one array with 16 bytes for each value and each key, strings
//! stay in the text, and the values that a query computes refer to the document. `jmespath` parses
//! the expressions. Everything that a query holds is charged to a `Meter`.

mod document;
mod evaluate;
mod query;
mod query_plan;
mod value;

pub(crate) use query::MAX_BYTES;
pub use query::{QueryError, QueryInput, QueryResult, check_expression, query_json, query_memory};
