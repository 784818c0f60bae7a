//! Pages and tables of these files: hashes that pin them to one another.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read;

use sha2::{Digest, Sha256};

use crate::bag::{digest_of, hex};
use crate::bundle::Bundle;
use crate::csv::Table;
use crate::json::read_text;
use crate::registry::Brief;
use crate::tally::{Found, Tally};

const PAGES: [&str; 2] = ["report.html", "report.md"];
/// What a page has before the hash of its numbers.
const MARKS: [&str; 2] = ["<meta name=\"pqlab-numbers-sha256\" content=\"", "numbers sha256: "];
const MAX_PAGE_BYTES: u64 = 256 << 20;
const LEAST_PAGE_BYTES: u64 = 1001;
/// What a page may not load from elsewhere.
const LOADED: [&str; 5] = [".js", ".css", ".png", ".svg", ".woff"];
const DOCUMENTS: [&str; 4] = ["scenario.effective.yml", "plan.json", "providers.json", "run.json"];
const FOLDERS: [&str; 3] = ["hosts/", "lineage/", "corrections/"];

pub fn present(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    for page in PAGES {
        tally.see();
        let size = bundle.payload().find(|(name, _)| *name == page).map(|(_, size)| size);
        tally.require(size.is_some(), || format!("{page} is missing"));
        let whole = size.is_none_or(|size| size >= LEAST_PAGE_BYTES);
        tally.require(whole, || format!("{page} is too short for a report"));
    }
    if bundle.has(PAGES[0]) {
        let content = read_text(&bundle.data.join(PAGES[0]), MAX_PAGE_BYTES)?;
        let begins = content.get(..15).is_some_and(|text| text.eq_ignore_ascii_case("<!doctype html>"));
        tally.require(begins, || "report.html is no HTML page".to_owned());
        tally.require(!loads_from_elsewhere(&content), || "report.html loads from elsewhere".to_owned());
    }
    Ok(())
}

/// Is there a `src` or `href` of another host that names a script, a style, a picture or a font?
fn loads_from_elsewhere(page: &str) -> bool {
    let lower = page.to_ascii_lowercase();
    ["src", "href"].iter().any(|name| {
        lower.match_indices(name).any(|(at, _)| {
            let rest = lower[at + name.len()..].trim_start();
            let Some(rest) = rest.strip_prefix('=').map(str::trim_start) else {
                return false;
            };
            let Some(quote) = rest.chars().next().filter(|letter| matches!(letter, '"' | '\'')) else {
                return false;
            };
            let address = rest[1..].split(quote).next().unwrap_or("");
            let path = address.strip_prefix("https:").or_else(|| address.strip_prefix("http:")).unwrap_or(address);
            path.strip_prefix("//").is_some_and(|path| LOADED.iter().any(|end| path.contains(end)))
        })
    })
}

/// SHA-256 over plan, records and tables: of each, in the order of paths, length and path, length and content.
fn numbers_of(bundle: &Bundle) -> Found<String> {
    let mut digest = Sha256::new();
    let mut block = vec![0; 1 << 16];
    for (name, size) in bundle.payload() {
        let parts: Vec<&str> = name.split('/').collect();
        let counts = match parts.as_slice() {
            ["plan.json"] | ["cells", _, "record.json"] => true,
            ["analysis", table] => table.strip_suffix(".csv").is_some(),
            _ => false,
        };
        if !counts {
            continue;
        }
        digest.update((name.len() as u64).to_be_bytes());
        digest.update(name.as_bytes());
        digest.update(size.to_be_bytes());
        let cannot = |why: std::io::Error| format!("{name}: {why}");
        let mut file = fs::File::open(bundle.data.join(name)).map_err(cannot)?;
        loop {
            let read = file.read(&mut block).map_err(cannot)?;
            if read == 0 {
                break;
            }
            digest.update(&block[..read]);
        }
    }
    Ok(hex(&digest.finalize()))
}

pub fn numbers(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    let due = numbers_of(bundle)?;
    for (page, mark) in PAGES.iter().zip(MARKS) {
        tally.see();
        let text = read_text(&bundle.data.join(page), MAX_PAGE_BYTES)?;
        let told = text.find(mark).map(|at| text[at + mark.len()..].trim_start_matches('`'));
        let right = told.is_some_and(|told| told.starts_with(&due));
        tally.require(right, || format!("{page} is not of these numbers ({}…)", &due[..12]));
    }
    Ok(())
}

/// Files, bytes, and SHA-256 over `<sha256>  <path>` lines sorted by path.
fn fingerprint<'a>(bundle: &Bundle, folder: &str, files: impl Iterator<Item = (&'a str, u64)>) -> Found<[String; 3]> {
    let (mut count, mut size) = (0_usize, 0_u64);
    let mut whole = Sha256::new();
    for (name, bytes) in files {
        let digest = digest_of::<Sha256>(&bundle.data.join(folder).join(name))?;
        whole.update(format!("{digest}  {name}\n").as_bytes());
        count += 1;
        size += bytes;
    }
    Ok([count.to_string(), size.to_string(), hex(&whole.finalize())])
}

pub fn fingerprints(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    let own = bundle.own()?;
    if !bundle.has("analysis/fingerprints.csv") && !own.has_witnesses() {
        "none in a bundle of another version".clone_into(&mut tally.note);
        return Ok(());
    }
    let table = Table::read(&bundle.data.join("analysis").join("fingerprints.csv"))?;
    let mut told: BTreeMap<String, [String; 3]> = BTreeMap::new();
    for row in table.rows() {
        let cell = row.text("cell_id")?;
        let name = if cell.is_empty() { row.text("part")? } else { cell };
        let columns = ["files_count", "size_bytes", "sha256"].map(|column| row.text(column));
        let [count, size, digest] = columns;
        told.insert(name.to_owned(), [count?.to_owned(), size?.to_owned(), digest?.to_owned()]);
    }
    let rows = bundle.rows.as_ref().map_err(Clone::clone)?;
    let mut parts: HashMap<&str, String> =
        rows.iter().map(|row| (row.cell_id.as_str(), format!("cells/{}", row.cell_id))).collect();
    parts.insert("run", String::new());
    for name in parts.keys().filter(|name| !told.contains_key(**name)) {
        tally.fail(|| format!("fingerprints.csv has no row of {name}"));
    }
    for (name, row) in &told {
        tally.see();
        let Some(folder) = parts.get(name.as_str()) else {
            tally.fail(|| format!("fingerprints.csv has a row of {name}, which was not planned"));
            continue;
        };
        let found = if folder.is_empty() {
            let of_the_run =
                |name: &str| DOCUMENTS.contains(&name) || FOLDERS.iter().any(|folder| name.starts_with(folder));
            fingerprint(bundle, "", bundle.payload().filter(|(name, _)| of_the_run(name)))?
        } else {
            fingerprint(bundle, folder, bundle.below(folder))?
        };
        tally.require(found == *row, || {
            format!("{name}: {} files of {} bytes, the tables are of others", found[0], found[1])
        });
    }
    Ok(())
}
