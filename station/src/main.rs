//! `pq-station run CONFIG`, `pq-station service NAME CONFIG`, `pq-station check CONFIG`.

const USAGE: &str = "usage: pq-station run CONFIG            in the foreground, until Ctrl-C
       pq-station service NAME CONFIG   what the service manager starts
       pq-station check CONFIG          say whether the settings can be used";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Err((code, why)) = run(&words) {
        eprintln!("pq-station: {why}");
        std::process::exit(code);
    }
}

fn run(words: &[&str]) -> Result<(), (i32, String)> {
    match words {
        ["run", config] => platform::foreground(config),
        ["service", name, config] => platform::background(name, config),
        ["check", config] => check(config),
        _ => Err((pq_station::EXIT_USAGE, USAGE.to_owned())),
    }
}

fn check(config: &str) -> Result<(), (i32, String)> {
    let found = pq_station::config::Config::load(std::path::Path::new(config)).and_then(|config| config.look());
    found.map_err(|why| (pq_station::EXIT_ENVIRONMENT, why))
}

#[cfg(windows)]
mod platform {
    use pq_station::{service, EXIT_ENVIRONMENT};
    use std::path::Path;

    pub fn foreground(config: &str) -> Result<(), (i32, String)> {
        service::foreground(Path::new(config)).map_err(|why| (EXIT_ENVIRONMENT, why))
    }

    pub fn background(name: &str, config: &str) -> Result<(), (i32, String)> {
        service::background(name, Path::new(config))
    }
}

#[cfg(not(windows))]
mod platform {
    use pq_station::EXIT_ENVIRONMENT;

    const WHY: &str = "this is a service host for Windows; next: use the system's own service manager here";

    pub fn foreground(_config: &str) -> Result<(), (i32, String)> {
        Err((EXIT_ENVIRONMENT, WHY.to_owned()))
    }

    pub fn background(_name: &str, _config: &str) -> Result<(), (i32, String)> {
        Err((EXIT_ENVIRONMENT, WHY.to_owned()))
    }
}
