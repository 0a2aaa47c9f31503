//! A dashboard as Grafana gets it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(super) struct Board {
    pub(super) uid: String,
    pub(super) title: String,
    pub(super) templating: Templating,
    pub(super) annotations: Annotations,
    pub(super) panels: Vec<Panel>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Templating {
    pub(super) list: Vec<Variable>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Variable {
    pub(super) name: String,
    /// The value of "All"; without it, "All" means the listed values.
    pub(super) all_value: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Annotations {
    pub(super) list: Vec<Annotation>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Annotation {
    pub(super) name: String,
    pub(super) expr: String,
}

/// A panel, or the title of a row of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Panel {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) grid_pos: Grid,
    #[serde(default)]
    pub(super) field_config: FieldConfig,
    #[serde(default)]
    pub(super) targets: Vec<Target>,
}

/// The position of a panel in columns and lines.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Grid {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) w: u32,
    pub(super) h: u32,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FieldConfig {
    pub(super) defaults: Defaults,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Defaults {
    pub(super) unit: String,
    pub(super) thresholds: Thresholds,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Thresholds {
    pub(super) steps: Vec<serde_json::Value>,
}

/// One query of a panel.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Target {
    pub(super) expr: String,
    #[serde(default)]
    pub(super) legend_format: String,
}

/// The folder of the dashboards.
pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards")
}

/// Every dashboard, with the name of its file.
pub(super) fn all() -> Vec<(String, Board)> {
    let files = fs::read_dir(folder()).expect("the folder of the dashboards").flatten();
    let paths = files.map(|file| file.path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("a dashboard");
            let board = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
            (name, board)
        })
        .collect()
}
