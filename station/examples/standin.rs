//! A program for the tests of the service host: holds a port, has a child of its own, and ends as it is told.
//!
//!     standin PORT FOLDER obey|deaf|brief
//!
//! Writes `FOLDER/processes` (its own number and its child's, one a line) once it listens. `obey` ends at the end of its
//! standard input, `deaf` of `CTRL_BREAK` alone, `brief` at once with code 3.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::{env, fs, process, thread, time::Duration};

// Its second process is left to the host on purpose.
#[allow(clippy::zombie_processes)]
fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    if words == ["grandchild"] {
        sleep_on();
    }
    let [port, folder, mode] = &words[..] else {
        panic!("standin PORT FOLDER obey|deaf|brief")
    };
    println!("größer als ASCII: {}", env::var("STANDIN_WORD").unwrap_or_default());
    if mode == "brief" {
        process::exit(3);
    }
    let listener = TcpListener::bind(("127.0.0.1", port.parse().expect("a port"))).expect("the port is free");
    let program = env::current_exe().expect("a program has a path");
    let child = Command::new(program)
        .arg("grandchild")
        .stdin(Stdio::null())
        .spawn()
        .expect("a second process");
    fs::write(
        format!("{folder}/processes"),
        format!("{}\n{}\n", process::id(), child.id()),
    )
    .expect("a folder");
    println!("here: {}", env::current_dir().expect("a folder").display());
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).expect("a standard input");
    if mode == "deaf" {
        sleep_on();
    }
    println!("clean end");
    drop(listener);
}

fn sleep_on() -> ! {
    loop {
        thread::sleep(Duration::from_secs(60));
    }
}
