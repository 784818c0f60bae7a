//! Hosts and ports as people write them: an address or a name, and a port. A name is resolved each time it is used, for
//! a ground station's address may change while a drone runs.

use std::fmt;
use std::io;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _, UdpSocket,
};

/// What an address with a port looks like, for messages.
pub const EXAMPLES: &str = "192.0.2.1:46000, [2001:db8::1]:46000 or station.local:46000";

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// As it is.
    Address(SocketAddr),
    /// To be resolved.
    Name(String, u16),
}

impl Place {
    /// Of `ADDRESS:PORT`, `[ADDRESS]:PORT` or `NAME:PORT`; `None`: it is none of these.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse() {
            return Some(Self::Address(address));
        }
        let (name, port) = text.rsplit_once(':')?;
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_port)?;
        let is_name = name.len() <= 253
            && name.split('.').all(|label| {
                let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
                (1..=63).contains(&label.len()) && label.bytes().all(is_inner)
            });
        // `192.0.2.256` is a mistyped address, and no name ends with a number.
        let last = name.rsplit('.').next()?;
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
        (is_name && !is_number).then(|| Self::Name(name.to_owned(), port))
    }

    /// Its addresses now, in the system's order; at least one.
    ///
    /// # Errors
    /// What the system's resolver said.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::Address(address) => Ok(vec![*address]),
            Self::Name(name, port) => {
                let found: Vec<SocketAddr> = (&name[..], *port).to_socket_addrs()?.collect();
                if found.is_empty() {
                    let what = format!("{name} has no address");
                    return Err(io::Error::new(io::ErrorKind::NotFound, what));
                }
                Ok(found)
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(out),
            Self::Name(name, port) => write!(out, "{name}:{port}"),
        }
    }
}

/// Every address of this host: `[::]`, which takes IPv4 as well; `0.0.0.0` where the kernel has no IPv6.
#[must_use]
pub fn anywhere(port: u16) -> SocketAddr {
    let ip: IpAddr = match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    };
    SocketAddr::from((ip, port))
}

/// Listen for TCP; on `[::]` for IPv4 as well, whatever the system's default is.
///
/// # Errors
/// What the system said.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    const QUEUE: i32 = 128;
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Elsewhere than on Unix this would let another process take the port.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(QUEUE)?;
    Ok(socket.into())
}

/// Of which source limits count: an IPv4 address, or a network of IPv6, whose owner has all its addresses.
#[must_use]
pub fn source_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        ip @ IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_read_and_shown_alike() {
        for text in [
            "192.0.2.1:46000",
            "[2001:db8::1]:46000",
            "station.local:46000",
            "gcs-1:46000",
        ] {
            let place = Place::read(text).expect("a place");
            assert_eq!(place.to_string(), text);
        }
        assert!(matches!(Place::read("[::1]:1"), Some(Place::Address(_))));
        assert!(matches!(Place::read("gcs:1"), Some(Place::Name(..))));
        for wrong in [
            "",
            ":1",
            "gcs",
            "gcs:",
            "gcs:+1",
            "gcs:65536",
            "gcs..x:1",
            "2001:db8::1:1",
            "a b:1",
            "192.0.2.256:1",
            "[gcs]:1",
            "gcs:1x",
        ] {
            assert_eq!(Place::read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_name_is_resolved_and_a_wrong_one_is_not() {
        let found = Place::read("localhost:7").and_then(|place| place.resolve().ok());
        let found = found.expect("every host has this name");
        assert!(found
            .iter()
            .all(|at| at.ip().is_loopback() && at.port() == 7));
        let nowhere = Place::Name("no-such-host.invalid".to_owned(), 7);
        assert!(nowhere.resolve().is_err());
    }

    #[test]
    fn limits_count_networks_of_ipv6() {
        let of = |text: &str| source_of(text.parse().expect("an address")).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("192.0.2.9"), "192.0.2.9");
        assert_eq!(of("::ffff:192.0.2.9"), "192.0.2.9");
    }
}
