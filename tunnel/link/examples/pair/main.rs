//! `pqlink`'s handshakes between two processes, for the bench: the station and the drone's dialling as they are in the
//! product, one thing added: how long each primitive took.
//!
//! ```text
//! pair keys FOLDER DRONES                                  a station's keys, and those of so many drones
//! pair station FOLDER ADDRESS SUITE                        serves; a line on standard input asks for its primitives' times
//! pair dial FOLDER ADDRESS SUITE COUNT LEAST LIMIT_S       handshakes one after another, 2 ms between two
//! pair crowd FOLDER ADDRESS SUITE WORKERS SECONDS          as many as so many threads make
//! ```
//!
//! Drones take turns: a station lets one complete two handshakes a second.

mod timed;

use pq_core::cell::locked;
use pq_link::accepting::Bounds;
use pq_link::config;
use pq_link::dialling::Drone;
use pq_link::keys;
use pq_link::link::{Link, TICK};
use pq_link::primitives::HostPrimitives;
use pq_link::raw::clock::process_cpu_ns;
use pq_link::reception::Reception;
use pq_link::station::Station;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use timed::{Step, Timed};

/// As in every other series of handshakes of the bench.
const PAUSE: Duration = Duration::from_millis(2);
const WARM_UP: usize = 5;
/// No more of it is spent on warming up, but one handshake is.
const WARM_UP_LIMIT: Duration = Duration::from_millis(100);

type Outcome = Result<(), String>;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn load() -> Result<&'static HostPrimitives, String> {
    let root = std::env::var("OQS_INSTALL_PATH").unwrap_or_else(|_| "/opt/liboqs".to_owned());
    let library = PathBuf::from(root).join("lib/liboqs.so");
    Ok(Box::leak(Box::new(
        HostPrimitives::load(&library).map_err(text)?,
    )))
}

fn name_of(number: usize) -> String {
    format!("drones/d{number:04}")
}

fn make_keys(folder: &Path, drones: usize) -> Outcome {
    keys::generate(folder, load()?).map_err(|error| error.0)?;
    std::fs::create_dir_all(folder.join("drones")).map_err(text)?;
    for number in 0..drones {
        let path = folder.join(name_of(number)).with_extension("key");
        let key = keys::fresh_drone().map_err(|error| error.0)?;
        keys::write_new(&path, &key, 0o600).map_err(|error| error.0)?;
        let settings = "plaintext = \"127.0.0.1:0\"\napplication = \"127.0.0.1:9\"\n";
        std::fs::write(path.with_extension("toml"), settings).map_err(text)?;
    }
    Ok(())
}

/// A row for each handshake that a station has worked for: each begins with a key pair.
fn rows_of(noted: &[(Step, u64)]) -> Vec<String> {
    let mut sums: Vec<(u64, u64)> = Vec::new();
    for (step, ns) in noted {
        if *step == Step::Keygen {
            sums.push((*ns, 0));
        }
        if let Some((_, crypto_ns)) = sums.last_mut() {
            *crypto_ns += ns;
        }
    }
    let shown = |(keygen, crypto): &(u64, u64)| {
        format!("{{\"keygen_ns\": {keygen}, \"crypto_ns\": {crypto}}}")
    };
    sums.iter().map(shown).collect()
}

/// Processor time of this process, ns; JSON.
fn own_cpu_ns() -> String {
    process_cpu_ns(std::process::id()).map_or_else(|| "null".to_owned(), |ns| ns.to_string())
}

fn station(folder: &Path, address: &str, suite: &str) -> Outcome {
    let lines = format!(
        "role = \"gcs\"\nsuite = \"{suite}\"\nhandshake = \"{address}\"\nsealed = \"127.0.0.1:0\"\ndrones = \"drones\"\n"
    );
    let config = config::parse(&folder.join("gcs.toml"), &lines).map_err(|error| error.0)?;
    let identity = keys::gcs_identity(&config.gcs_key).map_err(|error| error.0)?;
    let timed = Timed::of(load()?);
    let station = Station::open(config, identity, Box::new(timed.clone()))?;
    let reception = Reception::open(station, Bounds::of_this_machine())?;
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() {
                break;
            }
            let rows = rows_of(&timed.take()).join(", ");
            let cpu_ns = own_cpu_ns();
            println!("{{\"cpu_ns\": {cpu_ns}, \"handshakes\": [{rows}]}}");
        }
        std::process::exit(0);
    });
    println!("ready");
    loop {
        reception.tick();
        std::thread::sleep(TICK);
    }
}

/// Drones that dial from here, and what they share.
struct Fleet {
    drones: Vec<Drone>,
    link: Link,
    timed: Timed,
}

fn fleet(folder: &Path, address: &str, suite: &str) -> Result<Fleet, String> {
    let lines = format!(
        "role = \"drone\"\nsuite = \"{suite}\"\nhandshake = \"{address}\"\nsealed = \"0.0.0.0:0\"\n\
         plaintext = \"127.0.0.1:0\"\napplication = \"127.0.0.1:9\"\n"
    );
    let timed = Timed::of(load()?);
    let mut drones = Vec::new();
    loop {
        let path = folder.join(name_of(drones.len())).with_extension("key");
        if !path.exists() {
            break;
        }
        let key = keys::drone(&path).map_err(|error| error.0)?;
        let config = config::parse(&folder.join("drone.toml"), &lines).map_err(|error| error.0)?;
        let trusted = vec![keys::gcs_public(&config.gcs_key).map_err(|error| error.0)?];
        drones.push(Drone {
            config,
            id: key.id,
            psk: key.psk,
            trusted,
            primitives: Box::new(timed.clone()),
        });
    }
    let first = drones.first().ok_or("no drone has a key there")?;
    let link = Link::open(&first.config)?;
    Ok(Fleet {
        drones,
        link,
        timed,
    })
}

impl Fleet {
    /// Wall of one handshake of the drone whose turn it is, ns.
    fn dial(&self, turn: usize) -> Result<u128, String> {
        let drone = &self.drones[turn % self.drones.len()];
        let (_, _, _, wall) = drone.dial(&self.link, 0, None).map_err(text)?;
        Ok(wall.as_nanos())
    }
}

fn dial(fleet: &Fleet, count: usize, least: usize, limit_s: f64) -> Outcome {
    let mut warm = 0;
    let begun = Instant::now();
    while warm < WARM_UP && (warm == 0 || begun.elapsed() < WARM_UP_LIMIT) {
        fleet.dial(warm)?;
        warm += 1;
        std::thread::sleep(PAUSE);
    }
    fleet.timed.take();
    let mut rows: Vec<String> = Vec::new();
    let begun = Instant::now();
    while rows.len() < count {
        let spent_s = begun.elapsed().as_secs_f64();
        if (spent_s >= limit_s && rows.len() >= least) || spent_s >= 2.0 * limit_s {
            break;
        }
        let wall_ns = fleet.dial(warm + rows.len())?;
        let crypto_ns: u64 = fleet.timed.take().iter().map(|(_, ns)| ns).sum();
        rows.push(format!(
            "{{\"wall_ns\": {wall_ns}, \"crypto_ns\": {crypto_ns}}}"
        ));
        std::thread::sleep(PAUSE);
    }
    let rows = rows.join(", ");
    println!("{{\"warm_up\": {warm}, \"handshakes\": [{rows}]}}");
    Ok(())
}

fn crowd(fleet: &Fleet, workers: usize, limit: Duration) -> Outcome {
    for turn in 0..WARM_UP {
        fleet.dial(turn)?;
    }
    let refused = Mutex::new(Vec::new());
    let (begun, before_ns) = (Instant::now(), own_cpu_ns());
    let counts = std::thread::scope(|scope| {
        let workers = (0..workers).map(|worker| {
            let refused = &refused;
            scope.spawn(move || {
                let mut completed = 0;
                let mut turn = worker;
                while begun.elapsed() < limit {
                    match fleet.dial(turn) {
                        Ok(_) => completed += 1,
                        Err(error) => locked(refused).push(error),
                    }
                    turn += workers;
                }
                completed
            })
        });
        let workers: Vec<_> = workers.collect();
        let counts = workers.into_iter().map(|one| one.join().unwrap_or(0));
        counts.sum::<usize>()
    });
    let (seconds, after_ns) = (begun.elapsed().as_secs_f64(), own_cpu_ns());
    let refused = locked(&refused);
    let first = refused.first().map_or("", |error| error);
    println!(
        "{{\"completed\": {counts}, \"refused\": {}, \"first_refusal\": {first:?}, \"seconds\": {seconds}, \"cpu_before_ns\": {before_ns}, \
         \"cpu_after_ns\": {after_ns}}}",
        refused.len()
    );
    Ok(())
}

fn run(words: &[&str]) -> Outcome {
    match *words {
        ["keys", folder, drones] => make_keys(Path::new(folder), drones.parse().map_err(text)?),
        ["station", folder, address, suite] => station(Path::new(folder), address, suite),
        ["dial", folder, address, suite, count, least, limit_s] => dial(
            &fleet(Path::new(folder), address, suite)?,
            count.parse().map_err(text)?,
            least.parse().map_err(text)?,
            limit_s.parse().map_err(text)?,
        ),
        ["crowd", folder, address, suite, workers, seconds] => crowd(
            &fleet(Path::new(folder), address, suite)?,
            workers.parse().map_err(text)?,
            Duration::from_secs_f64(seconds.parse().map_err(text)?),
        ),
        _ => Err("pair keys, station, dial or crowd: see the head of its source".to_owned()),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(|word| &word[..]).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
