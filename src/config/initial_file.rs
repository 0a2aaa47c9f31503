//! The configuration file that `config init` writes: all settings, commented out.

use super::load::DEFAULT_FILE;

/// The first lines of the file; the places of files and the notation of values follow.
const HEAD: &str = "\
# Settings of Shellyard.
#
# Every setting is here with its default value, commented out: remove the `#` directly before a setting
# to change it, and keep the line of its [section]. Lines that begin with `# ` explain. Later layers
# override earlier ones: defaults < this file < environment < flags.
";

/// The line of the default file with which the text after [`HEAD`] begins.
const FIRST_COMMON_LINE: &str = "#   your file ";

/// Returns the text of a configuration file that changes nothing: the default file with each setting
/// commented out. The `#` of a setting has no space after it, so that settings and explanations differ.
#[must_use]
pub fn write_initial_file() -> String {
    let common = DEFAULT_FILE.lines().skip_while(|line| !line.starts_with(FIRST_COMMON_LINE));
    let mut text = format!("{HEAD}#\n");
    for line in common {
        text += &comment_out(line);
        text.push('\n');
    }
    text
}

/// Comments a line out if it is a setting, or a further line of a list.
fn comment_out(line: &str) -> String {
    if line.is_empty() || line.starts_with(['#', '[']) {
        return line.to_owned();
    }
    let value = line.trim_start();
    let indent = &line[..line.len() - value.len()];
    format!("{indent}#{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removes the `#` before each setting.
    fn uncomment(text: &str) -> String {
        let uncommented = text.lines().map(|line| {
            let value = line.trim_start();
            match value.strip_prefix('#') {
                Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => {
                    format!("{}{setting}\n", &line[..line.len() - value.len()])
                }
                Some(_) | None => format!("{line}\n"),
            }
        });
        uncommented.collect()
    }

    #[test]
    fn without_the_comment_signs_it_is_the_default_file() {
        let body = |text: &str| text[text.find("[http]").unwrap()..].to_owned();
        let text = write_initial_file();
        assert_eq!(body(&uncomment(&text)), body(DEFAULT_FILE));
        assert!(text.contains("\n#bind = \"127.0.0.1:8000\"\n"), "{text}");
        assert!(text.contains("\n    #\"zed=60\",\n#]\n"), "{text}");
        assert!(text.contains("SHELLYARD_QUEUE_SLOTS=8"), "{text}");
        assert!(!text.contains("compiled into"), "{text}");
    }

    #[test]
    fn it_sets_nothing() {
        let table: toml::Table = write_initial_file().parse().unwrap();
        fn count(value: &toml::Value) -> usize {
            value.as_table().map_or(1, |table| table.values().map(count).sum())
        }
        assert_eq!(table.values().map(count).sum::<usize>(), 0, "{table:?}");
        assert!(table.contains_key("http") && table.contains_key("trace"), "{table:?}");
    }
}
