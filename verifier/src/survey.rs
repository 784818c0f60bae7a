//! May a folder be opened as a bundle? Names and sizes alone are looked at, before a byte is read.

use std::fs;
use std::path::Path;

use crate::tally::Found;

/// Bounds that docs/VERIFY.md names.
const MAX_FILE_BYTES: u64 = 1 << 30;
const MAX_FOLDER_FILES: usize = 10_000;
const MAX_ENTRIES: usize = 1_000_000;

/// A file below `root`, named from there with `/`.
pub struct Entry {
    pub name: String,
    pub size: u64,
}

/// Every file below `root`, sorted by name. An error is why nothing may be opened.
pub fn survey(root: &Path) -> Found<Vec<Entry>> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    let mut seen = 0_usize;
    while let Some(folder) = folders.pop() {
        let mut here = 0_usize;
        let path = root.join(&folder);
        let cannot = |why: std::io::Error| format!("{folder}/ cannot be read: {why}");
        for entry in fs::read_dir(&path).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let Ok(own) = entry.file_name().into_string() else {
                return Err(format!("{folder}/ holds a name that is not UTF-8"));
            };
            let name = if folder.is_empty() { own } else { format!("{folder}/{own}") };
            seen += 1;
            if seen > MAX_ENTRIES {
                return Err(format!("more than {MAX_ENTRIES} entries"));
            }
            // of the entry itself: a link is not followed
            let about = entry.metadata().map_err(|why| format!("{name} cannot be looked at: {why}"))?;
            if about.is_dir() {
                folders.push(name);
                continue;
            }
            here += 1;
            if here > MAX_FOLDER_FILES {
                return Err(format!("{folder}/ holds more than {MAX_FOLDER_FILES} files"));
            }
            if !about.is_file() {
                return Err(format!("{name} is neither file nor folder"));
            }
            if about.len() > MAX_FILE_BYTES {
                return Err(format!("{name} has {} bytes, {MAX_FILE_BYTES} are the most", about.len()));
            }
            files.push(Entry { name, size: about.len() });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}
