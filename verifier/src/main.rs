//! A second verifier of result bundles, by the rules of docs/CORE-CHECKS.md and sharing no code with the first.
//!
//! `pqverifier BUNDLE` looks at a bundle's folder, changes nothing, and prints a line a check under the names of that
//! document. Exit codes: 0 all checks · 2 a wrong command line · 4 no such bundle · 5 any check failed.
#![forbid(unsafe_code)]

mod bag;
mod bundle;
mod cell;
mod csv;
mod drawn;
mod handshakes;
mod json;
mod ledger;
mod numbers;
mod plan;
mod plane;
mod record;
mod registry;
mod report;
mod shape;
mod survey;
mod tables;
mod tally;
mod times;
mod yaml;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: pqverifier BUNDLE\n\
    \x20 BUNDLE: the folder of a result bundle, or `data` beside its manifests; an archive is unpacked first:\n\
    \x20 zstd -dc FILE.tar.zst | tar -x";

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let [word] = words.as_slice() else {
        eprintln!("error: one bundle is asked for, {} words were given\n{USAGE}", words.len());
        return ExitCode::from(2);
    };
    if word == "--help" || word == "-h" {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let path = Path::new(word);
    if !path.is_dir() {
        eprintln!(
            "error: no bundle {}\n  why:  no folder of that name is here\n  next: name its folder",
            path.display()
        );
        return ExitCode::from(4);
    }
    let results = registry::verify(path);
    let failed = results.iter().filter(|tally| tally.failed()).count();
    for tally in &results {
        println!("{}", tally.line());
    }
    println!("{} checks: {} ok, {failed} failed", results.len(), results.len() - failed);
    ExitCode::from(if failed == 0 { 0 } else { 5 })
}
