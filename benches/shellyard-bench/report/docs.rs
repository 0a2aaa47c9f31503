//! The measured part of `docs/performance.md`.

use std::fs;
use std::io;
use std::path::Path;

use super::{Curve, Machine, Table, plot, text};

const BEGIN: &str = "<!-- measured -->";
const END: &str = "<!-- /measured -->";

/// Replaces that part, and the plots that it shows.
pub(super) fn write(machine: &Machine, tables: &[Table]) -> io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let page = docs.join("performance.md");
    let old = fs::read_to_string(&page)?;
    let new = between(&old, &measured(machine, tables))
        .ok_or_else(|| io::Error::other(format!("{} has no {BEGIN} … {END}", page.display())))?;
    let folder = docs.join("performance");
    fs::create_dir_all(&folder)?;
    for curve in plotted(tables) {
        let series = series(tables, curve.name);
        fs::write(folder.join(format!("{}.svg", curve.name)), plot::svg(curve, &series))?;
    }
    fs::write(page, new)
}

/// The page with this between the two marks.
fn between(page: &str, measured: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{measured}{END}{after}"))
}

fn measured(machine: &Machine, tables: &[Table]) -> String {
    let mut page = format!("{}\n", machine.sentence());
    for table in tables {
        page += &format!("\n### {}\n\n{}", table.heading(), text::markdown(table));
    }
    page += "\n### Growth\n\n";
    for curve in plotted(tables) {
        page += &format!("![{}](performance/{}.svg)\n", curve.title, curve.name);
    }
    page
}

/// Each curve once: all profiles are in one picture.
fn plotted(tables: &[Table]) -> &[Curve] {
    tables.first().map_or(&[], |table| &table.curves)
}

fn series<'a>(tables: &'a [Table], name: &str) -> Vec<(&'static str, &'a [(f64, f64)])> {
    let of = |table: &'a Table| {
        let curve = table.curves.iter().find(|curve| curve.name == name)?;
        Some((table.profile?.name(), curve.points.as_slice()))
    };
    tables.iter().filter_map(of).collect()
}
