//! Keys of `io.l5d.httpController`.

use crate::iface::{Core, InterfaceConfig, Serving};
use crate::runtime::Listener;

/// The `io.l5d.httpController` interface. It has no keys of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpControllerConfig;

impl InterfaceConfig for HttpControllerConfig {
    fn default_port(&self) -> u16 {
        4180
    }

    fn serve(&self, core: &Core, kind: &'static str, listener: Listener) -> Serving {
        super::serve(core, kind, listener)
    }
}
