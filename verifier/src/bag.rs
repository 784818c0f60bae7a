//! Fixity: the bag's tag files, every payload byte, and the crate that lists them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha512};

use crate::bundle::Bundle;
use crate::json::{list_of, read_object, read_text, text_of, Object};
use crate::registry::Brief;
use crate::tally::{Found, Tally};

const MANIFEST: &str = "manifest-sha512.txt";
const TAGMANIFEST: &str = "tagmanifest-sha512.txt";
const TAG_FILES: [&str; 2] = ["bagit.txt", MANIFEST];
/// There only where the bundle says who made it.
const INFO: &str = "bag-info.txt";
const BAGIT_TXT: &str = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
const METADATA: &str = "ro-crate-metadata.json";
/// A line of a manifest has some 200 bytes.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// Hex digest of a file's bytes.
pub fn digest_of<D: Digest>(path: &Path) -> Found<String> {
    let cannot = |why: std::io::Error| format!("{} cannot be read: {why}", crate::json::short(path));
    let mut file = fs::File::open(path).map_err(cannot)?;
    let mut digest = D::new();
    let mut block = vec![0; 1 << 16];
    loop {
        let size = file.read(&mut block).map_err(cannot)?;
        if size == 0 {
            return Ok(hex(&digest.finalize()));
        }
        digest.update(&block[..size]);
    }
}

pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.map(|half| DIGITS[usize::from(half)]).collect()
}

/// Path → digest. Lines end with a line feed alone; a digest has 128 letters; no path comes twice.
fn read_manifest(path: &Path) -> Found<BTreeMap<String, String>> {
    let name = crate::json::short(path);
    let text = read_text(path, MAX_MANIFEST_BYTES)?;
    let Some(text) = text.strip_suffix('\n') else {
        return Err(format!("{name}: its last line is cut short"));
    };
    let mut found = BTreeMap::new();
    for (at, line) in text.split('\n').enumerate() {
        let (digest, coded) = line.split_once("  ").unwrap_or(("", ""));
        if digest.chars().count() != 128 || coded.is_empty() {
            return Err(format!("{name}: line {} is not `digest  path`", at + 1));
        }
        let decoded = coded.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%");
        if found.insert(decoded, digest.to_owned()).is_some() {
            return Err(format!("{name}: line {} names a file again", at + 1));
        }
    }
    Ok(found)
}

pub fn structure(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    for name in [TAG_FILES[0], TAG_FILES[1], TAGMANIFEST] {
        tally.see();
        tally.require(bundle.root.join(name).is_file(), || format!("{name} is missing"));
    }
    let declared = bundle.root.join(TAG_FILES[0]);
    if declared.is_file() {
        tally.require(read_text(&declared, 1 << 16)? == BAGIT_TXT, || "bagit.txt declares something else".to_owned());
    }
    for entry in fs::read_dir(&bundle.root).map_err(|why| why.to_string())? {
        let name = entry.map_err(|why| why.to_string())?.file_name();
        let known = ["data", TAGMANIFEST, INFO].iter().chain(&TAG_FILES).any(|known| name == *known);
        tally.require(known, || format!("{} lies beside data/", name.to_string_lossy()));
    }
    let tags = bundle.root.join(TAGMANIFEST);
    if tags.is_file() {
        read_manifest(&tags)?;
    }
    for name in read_manifest(&bundle.root.join(MANIFEST))?.keys() {
        let inside = name.starts_with("data/") && !name.split('/').any(|part| part == "..");
        tally.require(inside, || format!("{MANIFEST} names {name}, outside data/"));
    }
    Ok(())
}

pub fn tag_fixity(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    let listed = read_manifest(&bundle.root.join(TAGMANIFEST))?;
    let told = bundle.root.join(INFO).is_file().then_some(INFO);
    for name in TAG_FILES.into_iter().chain(told) {
        tally.see();
        tally.require(listed.contains_key(name), || format!("{name} is not in {TAGMANIFEST}"));
    }
    for (name, digest) in &listed {
        let path = bundle.root.join(name);
        if !(TAG_FILES.contains(&name.as_str()) || name == INFO) || !path.is_file() {
            tally.fail(|| format!("{TAGMANIFEST} names {name}"));
        } else if digest_of::<Sha512>(&path)? != *digest {
            tally.fail(|| format!("{name} has changed since it was sealed"));
        }
    }
    Ok(())
}

pub fn payload_fixity(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    let listed = read_manifest(&bundle.root.join(MANIFEST))?;
    let present: HashSet<&str> =
        bundle.files.iter().map(|file| file.name.as_str()).filter(|name| name.starts_with("data/")).collect();
    for name in listed.keys().filter(|name| !present.contains(name.as_str())) {
        tally.fail(|| format!("{name} is missing"));
    }
    for file in bundle.files.iter().filter(|file| present.contains(file.name.as_str())) {
        let Some(digest) = listed.get(&file.name) else {
            tally.fail(|| format!("{} was added after sealing", file.name));
            continue;
        };
        tally.see();
        let found = digest_of::<Sha512>(&bundle.root.join(&file.name))?;
        tally.require(found == *digest, || format!("{} has changed since it was sealed", file.name));
    }
    Ok(())
}

pub fn crate_lists(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    let document = read_object(&bundle.data.join(METADATA))?;
    let mut entities: HashMap<&str, &Object> = HashMap::new();
    for entity in list_of(&document, "@graph")? {
        let entity = entity.as_object().ok_or("an entity is no object")?;
        entities.insert(text_of(entity, "@id")?, entity);
    }
    let of = |name: &str, key: &str| entities.get(name).and_then(|entity| entity.get(key));
    let about = of(METADATA, "about").and_then(Value::as_object);
    let described = about.is_some_and(|about| about.len() == 1 && text_of(about, "@id") == Ok("./"));
    tally.require(described, || format!("{METADATA} does not describe ./"));
    tally.require(entities.contains_key("./"), || "the root dataset is missing".to_owned());
    let run_id = bundle.plan.as_ref().map_err(Clone::clone)?.get("run_id").and_then(Value::as_str);
    let named = of("./", "identifier").and_then(Value::as_str);
    tally.require(named.is_some() && named == run_id, || "the crate's identifier is not the run".to_owned());
    let files: HashMap<&str, u64> = bundle.payload().filter(|(name, _)| *name != METADATA).collect();
    for (name, size) in &files {
        tally.see();
        let listed = of(name, "@type").and_then(Value::as_str) == Some("File");
        tally.require(listed, || format!("{name} is not listed"));
        let told = of(name, "contentSize").and_then(Value::as_str);
        tally.require(!listed || told == Some(size.to_string().as_str()), || {
            format!("{name} has {size} bytes and is listed with {}", told.unwrap_or("none"))
        });
    }
    for (name, entity) in &entities {
        let gone = text_of(entity, "@type") == Ok("File") && !files.contains_key(name);
        tally.require(!gone, || format!("{name} is listed and not there"));
    }
    Ok(())
}
