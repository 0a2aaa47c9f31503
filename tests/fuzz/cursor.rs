//! Cursors, as clients send them.

use shellyard::mcp::ParsedCursor;

use super::mutation::{Plan, Seeds};

fn check(bytes: &[u8]) {
    let given = String::from_utf8_lossy(bytes);
    match given.parse::<ParsedCursor>() {
        Ok(cursor) => {
            assert_eq!(cursor.to_string().parse(), Ok(cursor), "{given:?}");
            assert_eq!(cursor.with_job_last().parse(), Ok(cursor), "{given:?}");
        }
        Err(error) => {
            assert!(error.to_string().len() < 2 * given.len() + 300, "{given:?}: {error}");
        }
    }
}

#[test]
fn a_cursor_is_refused_or_read_and_written_the_same() {
    let seeds = Seeds::load("cursor");
    seeds.iter().for_each(check);
    let readable =
        seeds.iter().filter(|seed| String::from_utf8_lossy(seed).parse::<ParsedCursor>().is_ok());
    assert!(readable.count() > 3, "the corpus has cursors");
    bolero::check!().with_iterations(20_000).for_each(|plan: &[u8]| {
        check(&seeds.mutate(&mut Plan::new(plan)));
    });
}
