//! Lists of places with the file as a heading: eslint, `rg --heading`, `git grep --heading`.

use super::section_line::{HeadLine, Membership, SectionLine};

/// The lines below the name of a file.
#[derive(Debug)]
pub(super) struct FileList {
    head: HeadLine,
    form: ListForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListForm {
    /// `  12:5  error  …`
    Indented,
    /// `12:…`
    Numbered,
}

impl FileList {
    pub(super) fn begin(line: &SectionLine<'_>) -> Option<Self> {
        let form = ListForm::from_line(line)?;
        let heading = line.previous().filter(|heading| is_path(&heading.text))?;
        // The heading of a list has an empty line before it, if it has any.
        let is_apart = heading.previous().is_none_or(|before| before.is_blank());
        (form == ListForm::Indented || is_apart).then(|| Self { head: heading.to_head(), form })
    }

    pub(super) fn add_line(&self, line: &SectionLine<'_>) -> Membership {
        Membership::inside_if(match self.form {
            ListForm::Indented => line.indent() > 0 && !line.is_blank(),
            ListForm::Numbered => ListForm::from_line(line) == Some(self.form) || line.text == "--",
        })
    }

    pub(super) fn head(&self) -> HeadLine {
        self.head.clone()
    }
}

impl ListForm {
    fn from_line(line: &SectionLine<'_>) -> Option<Self> {
        let text = line.text.trim_start();
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == text.len() {
            return None;
        }
        if line.indent() == 0 {
            return rest.starts_with([':', '-']).then_some(Self::Numbered);
        }
        let column = rest.strip_prefix(':')?;
        let after = column.trim_start_matches(|c: char| c.is_ascii_digit());
        (after.len() < column.len() && after.starts_with("  ")).then_some(Self::Indented)
    }
}

/// `true` for a line that is only a path.
fn is_path(text: &str) -> bool {
    let is_absolute = text.starts_with('/');
    let is_word = !text.contains([' ', ':']) && !text.starts_with(|c: char| c.is_ascii_digit());
    is_absolute || is_word && text.contains(['/', '.']) && !text.ends_with('.')
}
