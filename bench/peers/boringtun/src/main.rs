//! `peer-boringtun INTERFACE`: boringtun's own device loop in the foreground, with the settings of its command line.

use boringtun::device::{DeviceConfig, DeviceHandle};

fn main() -> Result<(), String> {
    let name = std::env::args()
        .nth(1)
        .ok_or("usage: peer-boringtun INTERFACE")?;
    let mut device = DeviceHandle::new(&name, DeviceConfig::default())
        .map_err(|error| format!("{name}: {error}"))?;
    device.wait();
    Ok(())
}
