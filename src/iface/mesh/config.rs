//! Keys of `io.l5d.mesh`.

use std::time::Duration;

use crate::config::Fields;
use crate::iface::{Core, InterfaceConfig, Serving};
use crate::runtime::Listener;

/// What a client has no room for in this time is not for it: its stream is reset.
const STALL: Duration = Duration::from_secs(30);

/// The `io.l5d.mesh` interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeshConfig {
    /// `stallTimeoutMs`
    pub stall: Duration,
}

// === impl MeshConfig ===

impl MeshConfig {
    /// Reads the keys. None only if a problem was reported.
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let keys = ["h2AccessLog", "h2AccessLogRollPolicy", "h2AccessLogAppend", "h2AccessLogRotateCount"];
        fields.without_effect(&keys, ": rosterd writes no access log of the mesh interface");
        Some(Self { stall: fields.millis_or("stallTimeoutMs", STALL) })
    }
}

impl InterfaceConfig for MeshConfig {
    fn default_port(&self) -> u16 {
        4321
    }

    fn alpn(&self) -> &'static [&'static [u8]] {
        &[b"h2"]
    }

    fn serve(&self, core: &Core, kind: &'static str, listener: Listener) -> Serving {
        super::serve(core, kind, self, listener)
    }
}
