//! The log file: what the program prints and, between, one line for whatever becomes of it. UTF-8; begun anew at each
//! start of the host, the one before kept.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

/// Appends alone, so that lines of host and program never overwrite each other.
pub struct Journal {
    file: File,
    is_echoed: bool,
}

impl Journal {
    /// Put the last log aside and begin one. `is_echoed`: the host's own lines go to standard error as well.
    ///
    /// # Errors
    /// One line, when the file cannot be written.
    pub fn begin(path: &Path, older: &Path, is_echoed: bool) -> Result<Self, String> {
        let aside = match std::fs::rename(path, older) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Some(error),
            _ => None,
        };
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| {
                format!(
                    "the log {} cannot be written: {error}; next: let the service's account write there",
                    path.display()
                )
            })?;
        let mut journal = Self { file, is_echoed };
        if let Some(error) = aside {
            journal.say(&format!(
                "the last log could not be put aside ({error}): this one goes on below it"
            ));
        }
        Ok(journal)
    }

    /// One line of the host's own. A log that cannot be written (a full disk) does not end the service: the line goes
    /// to standard error.
    pub fn say(&mut self, line: &str) {
        let whole = format!("{} pq-station: {line}\n", utc(SystemTime::now()));
        let written = self.file.write_all(whole.as_bytes());
        if self.is_echoed || written.is_err() {
            eprint!("{whole}");
        }
    }

    /// For the program's standard output or error.
    ///
    /// # Errors
    /// When the system has no handle left.
    pub fn for_program(&self) -> io::Result<Stdio> {
        Ok(Stdio::from(self.file.try_clone()?))
    }
}

/// ISO 8601 with milliseconds. Days to date as in the proleptic Gregorian calendar, by years that begin in March.
#[must_use]
pub fn utc(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (day, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!(
        "{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{:02}.{:03}Z",
        second % 60,
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pq-station-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn known_instants() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_200_001, "2024-03-01T00:00:00.001Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (milliseconds, text) in cases {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn one_older_log_is_kept_and_no_more() {
        let here = folder("rotate");
        let (log, older) = (here.join("a.log"), here.join("a.log.1"));
        for text in ["first", "second, größer", "third"] {
            Journal::begin(&log, &older, false).unwrap().say(text);
        }
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert!(read(&log).ends_with(" pq-station: third\n") && !read(&log).contains("second"));
        assert!(read(&older).ends_with(" pq-station: second, größer\n") && !read(&older).contains("first"));
        assert_eq!(std::fs::read_dir(&here).unwrap().count(), 2);
        std::fs::remove_dir_all(here).unwrap();
    }

    #[test]
    fn a_log_that_cannot_be_put_aside_goes_on_and_says_so() {
        let here = folder("aside");
        let (log, older) = (here.join("a.log"), here.join("none").join("a.log.1"));
        Journal::begin(&log, &here.join("a.log.1"), false).unwrap().say("kept");
        std::fs::create_dir_all(older.join("in the way")).unwrap();
        Journal::begin(&log, &older, false).unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        assert!(
            text.contains("kept\n") && text.contains("could not be put aside"),
            "{text}"
        );
        std::fs::remove_dir_all(here).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_is_one_line() {
        let Err(error) = Journal::begin(Path::new("/none/a.log"), Path::new("/none/a.log.1"), false) else {
            panic!("it was opened")
        };
        assert!(
            error.contains("/none/a.log cannot be written") && error.contains("; next: "),
            "{error}"
        );
    }
}
