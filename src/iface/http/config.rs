//! Keys of `io.l5d.httpController`.

use crate::iface::InterfaceConfig;

/// The `io.l5d.httpController` interface. It has no keys of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpControllerConfig;

impl InterfaceConfig for HttpControllerConfig {
    fn default_port(&self) -> u16 {
        4180
    }
}
