//! Load generator and sink of the forwarding benchmarks; each subcommand prints one JSON object at its end.
//!
//! `send` offers a fixed rate, `closed` as much as the sink acknowledges, `flood` forged datagrams; `sink` counts and
//! takes latencies; `forward` is the plainest forwarder there is: one datagram a system call.

mod args;
mod flood;
mod forward;
mod load;
mod sink;
mod stamp;

use args::Args;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut words = std::env::args().skip(1);
    let verb = words.next().unwrap_or_default();
    let args = Args::new(words)?;
    match verb.as_str() {
        "send" => load::open_loop(&args),
        "closed" => load::closed_loop(&args),
        "flood" => flood::run(&args),
        "sink" => sink::run(&args),
        "forward" => forward::run(&args),
        _ => Err("usage: pqload send|closed|flood|sink|forward --OPTION VALUE ...".into()),
    }
}
