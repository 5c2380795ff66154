//! The rule of dependency: `core/` imports only `core/`, `shell/` imports `core/`, `app/` joins them.
//!
//! Place in the flow: reads `cargo metadata`. Dependencies of every kind count, those of tests and build scripts too.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Findings;

/// One shell may import another only where it is a library for it: (importing, imported).
const SHELL_LIBRARIES: &[(&str, &str)] = &[
    ("robinhood-agent", "robinhood-cache-server"), // its tests
    ("robinhood-agent", "robinhood-control"),
    ("robinhood-aggregator", "robinhood-intake"),
    ("robinhood-control", "robinhood-client"),
    ("robinhood-testbed", "robinhood-agent"),
    ("robinhood-testbed", "robinhood-cache-server"),
    ("robinhood-testbed", "robinhood-client"),
    ("robinhood-testbed", "robinhood-control"),
    ("robinhood-testbed", "robinhood-load-tester"),
];

/// Crates that bring clocks, threads, sockets, files or hidden randomness: none of them in the core, outside its tests.
const NOT_IN_CORE: &[&str] =
    &["fastrand", "getrandom", "libc", "mio", "nix", "rand", "redb", "rusqlite", "rustix", "tokio"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Core,
    Shell,
    App,
    Tool,
}

impl Layer {
    /// The layer of the first folder of a manifest's path.
    fn of_folder(folder: &str) -> Option<Self> {
        match folder {
            "core" => Some(Self::Core),
            "shell" => Some(Self::Shell),
            "app" | "examples" => Some(Self::App), // examples join crates too, and nobody imports them
            "xtask" | "fuzz" => Some(Self::Tool),
            _ => None,
        }
    }
}

/// Checks the output of `cargo metadata --no-deps --format-version 1`.
///
/// # Errors
/// When the output is not what cargo gives.
pub(crate) fn check(metadata: &Value) -> Result<Findings, String> {
    let mut findings = Findings::default();
    let root = text(metadata, "workspace_root")?;
    let packages = list(metadata, "packages")?;
    let mut layers = BTreeMap::new();
    for package in packages {
        let name = text(package, "name")?;
        let manifest = text(package, "manifest_path")?;
        let folder = manifest.strip_prefix(root).and_then(|path| path.split(['/', '\\']).nth(1));
        match folder.and_then(Layer::of_folder) {
            Some(layer) => _ = layers.insert(name, layer),
            None => findings.faults.push(format!(
                "{name} lies in no layer ({manifest}): move it to core/, shell/ or app/"
            )),
        }
    }
    for package in packages {
        let name = text(package, "name")?;
        let Some(&layer) = layers.get(name) else { continue };
        for dependency in list(package, "dependencies")? {
            let imported = text(dependency, "name")?;
            let for_tests = dependency["kind"] == "dev";
            let fault = match layers.get(imported) {
                Some(&below) => crossing((name, layer), (imported, below)),
                None if layer == Layer::Core && !for_tests && NOT_IN_CORE.contains(&imported) => {
                    Some("the core has no clock, threads, I/O or hidden randomness")
                }
                None => None,
            };
            if let Some(rule) = fault {
                findings.faults.push(format!("{name} depends on {imported}: {rule}"));
            }
        }
    }
    Ok(findings)
}

/// The rule that an import breaks, if any.
fn crossing(from: (&str, Layer), to: (&str, Layer)) -> Option<&'static str> {
    match (from.1, to.1) {
        (Layer::Core, Layer::Core) | (Layer::Shell | Layer::App, Layer::Core) => None,
        (Layer::Core, _) => Some("core/ imports only core/"),
        (_, Layer::App) => Some("nothing imports app/"),
        (_, Layer::Tool) => Some("tools are imported by nobody"),
        (Layer::App, Layer::Shell) => None,
        (Layer::Shell, Layer::Shell) if SHELL_LIBRARIES.contains(&(from.0, to.0)) => None,
        (Layer::Shell, Layer::Shell) => {
            Some("shells do not import each other, but for the pairs listed in xtask/src/layers.rs")
        }
        (Layer::Tool, _) => Some("tools work on the repository and not with its crates"),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key].as_str().ok_or_else(|| format!("cargo metadata: `{key}` is not a text"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a [Value], String> {
    let list = value[key].as_array().map(Vec::as_slice);
    list.ok_or_else(|| format!("cargo metadata: `{key}` is not a list"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Metadata of packages given as (path, imports); an import written `dev:name` is one of tests.
    fn faults(packages: &[(&str, &[&str])]) -> Vec<String> {
        let packages: Vec<Value> = packages
            .iter()
            .map(|(path, imports)| {
                let imports: Vec<Value> = imports
                    .iter()
                    .map(|import| match import.strip_prefix("dev:") {
                        Some(name) => json!({"name": name, "kind": "dev"}),
                        None => json!({"name": import, "kind": null}),
                    })
                    .collect();
                let name = path.rsplit('/').next().unwrap();
                json!({
                    "name": format!("robinhood-{name}"),
                    "manifest_path": format!("/repo/{path}/Cargo.toml"),
                    "dependencies": imports,
                })
            })
            .collect();
        check(&json!({"workspace_root": "/repo", "packages": packages})).unwrap().faults
    }

    const GOOD: &[(&str, &[&str])] = &[
        ("core/stats", &["serde", "dev:rand"]),
        ("core/cache", &["robinhood-stats"]),
        ("shell/client", &["robinhood-cache", "tokio"]),
        ("shell/load-tester", &["robinhood-stats", "nix"]),
        ("shell/testbed", &["robinhood-client", "robinhood-load-tester", "robinhood-cache"]),
        ("app/cli", &["robinhood-testbed", "robinhood-client", "robinhood-cache"]),
        ("xtask", &["serde_json"]),
    ];

    #[test]
    fn imports_that_go_down_are_allowed() {
        assert_eq!(faults(GOOD), [""; 0]);
    }

    #[test]
    fn every_import_that_goes_up_or_across_is_a_fault() {
        let bad: &[(&str, &str, &str)] = &[
            ("core/bad", "robinhood-client", "core/ imports only core/"),
            ("core/bad", "dev:robinhood-client", "core/ imports only core/"),
            ("core/bad", "robinhood-cli", "core/ imports only core/"),
            ("core/bad", "tokio", "no clock"),
            ("shell/bad", "robinhood-client", "shells do not import each other"),
            ("shell/bad", "dev:robinhood-testbed", "shells do not import each other"),
            ("shell/bad", "robinhood-cli", "nothing imports app/"),
            ("shell/bad", "robinhood-xtask", "imported by nobody"),
            ("app/bad", "robinhood-cli", "nothing imports app/"),
            ("xtask/bad", "robinhood-stats", "tools work on the repository"),
        ];
        for (path, import, rule) in bad {
            let imports = [*import];
            let faults = faults(&[GOOD, &[(path, &imports)]].concat());
            assert_eq!(faults.len(), 1, "{path} imports {import}: {faults:?}");
            assert!(faults[0].starts_with("robinhood-bad depends on "), "{faults:?}");
            assert!(faults[0].contains(rule), "{faults:?}");
        }
    }

    #[test]
    fn a_package_outside_the_layers_is_a_fault() {
        let faults = faults(&[("crates/new", &[])]);
        assert!(faults[0].contains("robinhood-new lies in no layer"), "{faults:?}");
    }

    #[test]
    fn output_that_is_not_metadata_is_an_error() {
        assert!(check(&json!({})).unwrap_err().contains("workspace_root"));
        assert!(check(&json!({"workspace_root": "/repo"})).unwrap_err().contains("packages"));
    }
}
