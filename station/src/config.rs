//! Settings of one service, a TOML file. An error is one line: what, why, what next.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// As written. Times are seconds; paths are Windows' own and absolute, for a service starts in Windows' folder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub program: String,
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Added to the service's own environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Working directory of the program.
    pub directory: String,
    /// What the program prints and what becomes of it; the one before is kept with `.1` at its name.
    pub log: String,
    /// Before a program that ended by itself is started again.
    #[serde(default = "one")]
    pub restart_pause_s: f64,
    /// The longest this pause grows to while the program dies at once.
    #[serde(default = "sixty")]
    pub restart_pause_max_s: f64,
    /// What a program has to end after it was asked to, before it is ended.
    #[serde(default = "eight")]
    pub stop_grace_s: f64,
}

const fn one() -> f64 {
    1.0
}

const fn sixty() -> f64 {
    60.0
}

const fn eight() -> f64 {
    8.0
}

impl Config {
    /// Read and check a file.
    ///
    /// # Errors
    /// One line: what is wrong with which setting, and what to do.
    pub fn load(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!("{shown} cannot be read: {error}; next: give the path of the service's settings")
        })?;
        Self::parse(&text).map_err(|why| format!("{shown}: {why}"))
    }

    /// Check a text.
    ///
    /// # Errors
    /// As [`Config::load`], without the file's name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            let why = error.message().replace('\n', " ");
            format!("line {line}: {why}; next: mend that line")
        })?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        for (name, value) in [
            ("program", &self.program),
            ("directory", &self.directory),
            ("log", &self.log),
        ] {
            if !is_absolute(value) {
                return Err(format!(
                    "{name} is '{value}', no absolute path; next: begin it with a drive, like C:\\"
                ));
            }
        }
        within("restart_pause_s", self.restart_pause_s, 0.1, 60.0)?;
        within(
            "restart_pause_max_s",
            self.restart_pause_max_s,
            self.restart_pause_s,
            3600.0,
        )?;
        within("stop_grace_s", self.stop_grace_s, 0.1, 120.0)?;
        let bad = |name: &str| name.is_empty() || name.contains(['=', '\0']);
        match self.environment.keys().find(|name| bad(name)) {
            Some(name) => Err(format!(
                "environment has a variable named '{name}'; next: give it a name without ="
            )),
            None => Ok(()),
        }
    }

    /// Whether program and folders are there.
    ///
    /// # Errors
    /// One line that names what is not.
    pub fn look(&self) -> Result<(), String> {
        if !Path::new(&self.program).is_file() {
            return Err(format!(
                "program {} is not there; next: install it, or mend program",
                self.program
            ));
        }
        let log = Path::new(&self.log).parent().unwrap_or(Path::new(""));
        for (name, folder) in [("directory", Path::new(&self.directory)), ("the log's folder", log)] {
            if !folder.is_dir() {
                return Err(format!("{name} {} is not there; next: make it", folder.display()));
            }
        }
        Ok(())
    }

    /// Where the log's predecessor is kept.
    #[must_use]
    pub fn older_log(&self) -> PathBuf {
        PathBuf::from(format!("{}.1", self.log))
    }

    /// [`Config::restart_pause_s`] and its limit.
    #[must_use]
    pub fn pauses(&self) -> (Duration, Duration) {
        (
            Duration::from_secs_f64(self.restart_pause_s),
            Duration::from_secs_f64(self.restart_pause_max_s),
        )
    }

    /// [`Config::stop_grace_s`].
    #[must_use]
    pub fn grace(&self) -> Duration {
        Duration::from_secs_f64(self.stop_grace_s)
    }
}

/// A full path of Windows: a drive and a backslash, or a share.
fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    let drive =
        bytes.len() > 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' && matches!(bytes[2], b'\\' | b'/');
    drive || path.starts_with(r"\\")
}

fn within(name: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!(
        "{name} is {value}, not {least} to {most} seconds; next: set it within that"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = r"
program = 'C:\p\python.exe'
directory = 'C:\p'
log = 'C:\p\a.log'
";

    #[test]
    fn what_is_left_out_has_a_default() {
        let config = Config::parse(LEAST).unwrap();
        assert_eq!(config.arguments, Vec::<String>::new());
        assert_eq!(config.pauses(), (Duration::from_secs(1), Duration::from_secs(60)));
        assert_eq!(config.grace(), Duration::from_secs(8));
        assert_eq!(config.older_log(), PathBuf::from(r"C:\p\a.log.1"));
    }

    #[test]
    fn everything_can_be_set() {
        let text = format!(
            "arguments = ['-m', 'pqtunnel']\nrestart_pause_s = 2\nrestart_pause_max_s = 4\nstop_grace_s = 0.5\n{LEAST}\
             [environment]\nPYTHONUTF8 = '1'\n"
        );
        let config = Config::parse(&text).unwrap();
        assert_eq!(config.arguments, ["-m", "pqtunnel"]);
        assert_eq!(config.environment["PYTHONUTF8"], "1");
        assert_eq!(config.pauses(), (Duration::from_secs(2), Duration::from_secs(4)));
        assert_eq!(config.grace(), Duration::from_millis(500));
    }

    #[test]
    fn every_mistake_is_one_line_that_names_it_and_what_next() {
        let cases = [
            (LEAST.replace("program", "programme"), "programme"),
            (LEAST.replace(r"C:\p\a.log", "a.log"), "log is 'a.log'"),
            (LEAST.replace(r"'C:\p'", r"'p'"), "directory is 'p'"),
            (LEAST.replace(r"'C:\p'", "5"), "line 3"),
            (LEAST.replace("directory", "# directory"), "missing field `directory`"),
            (format!("{LEAST}restart_pause_s = 0\n"), "restart_pause_s is 0"),
            (
                format!("{LEAST}restart_pause_s = 9\nrestart_pause_max_s = 8\n"),
                "restart_pause_max_s is 8",
            ),
            (format!("{LEAST}stop_grace_s = nan\n"), "stop_grace_s is NaN"),
            (format!("{LEAST}[environment]\n'A=B' = 'c'\n"), "'A=B'"),
            (format!("{LEAST}program = 'C:\\q'\n"), "duplicate"),
        ];
        for (text, named) in cases {
            let error = Config::parse(&text).unwrap_err();
            assert!(error.contains(named), "{error:?} does not name {named:?}");
            assert!(error.contains("; next: ") && !error.contains('\n'), "{error:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Config::load(Path::new("/none/such.toml")).unwrap_err();
        assert!(error.starts_with("/none/such.toml cannot be read: "), "{error}");
    }

    #[test]
    fn shares_and_drives_are_absolute_and_nothing_else() {
        for path in [r"C:\a", "d:/a", r"\\host\share"] {
            assert!(is_absolute(path), "{path}");
        }
        for path in ["", "a", r"\a", "C:a", "C:", "/a"] {
            assert!(!is_absolute(path), "{path}");
        }
    }
}
