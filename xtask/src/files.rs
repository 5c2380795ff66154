//! Rules for single files: length, headers, unsafe code, leftover marks, paths of somebody's machine.
//!
//! Place in the flow: one file's text in, findings out. Rules work on lines; they rely on the layout that rustfmt gives.

use crate::Findings;

/// Lines of a source file beyond which it should be divided, and beyond which it must be.
const LINES: (usize, usize) = (400, 1_000);

/// Lines of a function beyond which it should be divided.
const FUNCTION_LINES: usize = 70;

/// Marks of unfinished work or of a merge. In two parts each, so that this file does not break its own rule.
const MARKS: &[(&str, &str)] = &[
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("todo", "!("),
    ("unimplemented", "!("),
    ("dbg", "!("),
    ("<<<<", "<<< "),
    (">>>>", ">>> "),
];

/// Folders that exist on one machine only.
const MACHINE_PATHS: &[(&str, &str)] =
    &[("/wo", "rk/"), ("/ro", "ot/"), ("/ho", "me/"), ("/Us", "ers/"), ("/tmp", "/rh")];

/// What follows the keyword where code is unsafe, and not where a text mentions it.
const UNSAFE: &[(&str, &str)] = &[
    ("unsafe", " {"),
    ("unsafe", " fn "),
    ("unsafe", " impl "),
    ("unsafe", " trait "),
    ("unsafe", " extern "),
    ("#[unsafe", "("),
];

/// Checks one file, given by its path from the root of the repository.
pub(crate) fn check(path: &str, text: &str) -> Findings {
    let mut findings = Findings::default();
    // A lock file is written by cargo; licences are what they are.
    if path == "Cargo.lock" || path.starts_with("LICENSE") {
        return findings;
    }
    for (number, line) in (1..).zip(text.lines()) {
        let mut fault = |what: &str| findings.faults.push(format!("{path}:{number}: {what}"));
        if let Some(mark) = found(MARKS, line) {
            fault(&format!("leftover `{}`", mark.trim()));
        }
        if let Some(folder) = found(MACHINE_PATHS, line) {
            fault(&format!("`{folder}` is a path of one machine"));
        }
        if path.ends_with(".rs") && found(UNSAFE, line).is_some() {
            fault("unsafe code");
        }
    }
    if path.ends_with(".rs") {
        check_source(path, text, &mut findings);
    }
    findings
}

fn check_source(path: &str, text: &str, findings: &mut Findings) {
    let lines = text.lines().count();
    if lines > LINES.1 {
        findings.faults.push(format!("{path}: {lines} lines, {} are allowed", LINES.1));
    } else if lines > LINES.0 {
        findings.warnings.push(format!("{path}: {lines} lines, divide it above {}", LINES.0));
    }
    let is_test = path.contains("/tests") || path.contains("_tests");
    if !is_test && !text.starts_with("//!") {
        findings
            .faults
            .push(format!("{path}: begins without a `//!` header that says its purpose"));
    }
    for (number, name, length) in long_functions(text) {
        findings.warnings.push(format!(
            "{path}:{number}: `{name}` has {length} lines, divide it above {FUNCTION_LINES}"
        ));
    }
}

/// The first of the patterns that the line contains.
fn found(patterns: &[(&str, &str)], line: &str) -> Option<String> {
    let mut patterns = patterns.iter().map(|(first, second)| format!("{first}{second}"));
    patterns.find(|pattern| line.contains(pattern))
}

/// Functions over the limit: line, name and lines. A function ends at the next brace with its own indentation.
fn long_functions(text: &str) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut long = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indentation = &line[..line.len() - line.trim_start().len()];
        let closing = format!("{indentation}}}");
        let after = lines[start..].iter().position(|line| *line == closing);
        let length = after.map_or(0, |after| after + 1);
        if length > FUNCTION_LINES {
            long.push((start + 1, name.to_owned(), length));
        }
    }
    long
}

/// The name of the function that a line begins, if it has a body that does not end on the line.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let qualifiers = ["pub", "pub(crate)", "pub(super)", "const", "async"];
    let is_item = before.split_whitespace().all(|word| qualifiers.contains(&word));
    if !is_item || line.ends_with('}') || line.ends_with(';') {
        return None;
    }
    after.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pairs: &[(&str, &str)]) -> Vec<String> {
        pairs.iter().map(|(first, second)| format!("{first}{second}")).collect()
    }

    #[test]
    fn marks_machine_paths_and_unsafe_code_are_faults_with_their_line() {
        for pattern in [joined(MARKS), joined(MACHINE_PATHS), joined(UNSAFE)].concat() {
            let findings = check("core/a/src/b.rs", &format!("//! Good.\nlet a = {pattern}"));
            assert_eq!(findings.faults.len(), 1, "{pattern}: {findings:?}");
            assert!(findings.faults[0].starts_with("core/a/src/b.rs:2: "), "{findings:?}");
        }
        assert_eq!(check("README.md", "There is no unsafe code here."), Findings::default());
        assert_eq!(check("Cargo.lock", &joined(MACHINE_PATHS)[0]), Findings::default());
    }

    #[test]
    fn sources_begin_with_a_header_and_tests_need_none() {
        assert_eq!(check("core/a/src/b.rs", "use std::fmt;\n").faults.len(), 1);
        assert_eq!(check("core/a/src/b/tests.rs", "use super::*;\n"), Findings::default());
        assert_eq!(check("core/a/tests/whole.rs", "use super::*;\n"), Findings::default());
    }

    #[test]
    fn long_files_are_warned_about_and_longer_ones_refused() {
        let file = |lines: usize| check("core/a/src/b.rs", &"//! Line.\n".repeat(lines));
        assert_eq!(file(400), Findings::default());
        assert_eq!((file(401).faults.len(), file(401).warnings.len()), (0, 1));
        assert_eq!((file(1_001).faults.len(), file(1_001).warnings.len()), (1, 0));
    }

    #[test]
    fn long_functions_are_warned_about_with_their_name() {
        let text = |lines: usize| {
            format!(
                "//! A.\nimpl A {{\n    pub const fn long<T>(\n{}    }}\n\n    fn short() {{\n    }}\n}}\n",
                "        a();\n".repeat(lines - 2)
            )
        };
        assert_eq!(check("core/a/src/b.rs", &text(70)), Findings::default());
        let warnings = check("core/a/src/b.rs", &text(71)).warnings;
        assert_eq!(warnings, ["core/a/src/b.rs:3: `long` has 71 lines, divide it above 70"]);
    }
}
