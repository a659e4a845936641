//! `interfaces:` of the configuration: the kinds there are, and the keys that all of them have.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::http::HttpControllerConfig;
use super::mesh::MeshConfig;
use super::thrift::ThriftConfig;
use super::{Core, Serving};
use crate::config::tree::Node;
use crate::config::{Fields, Kind, Port, Report, SocketOptions, Span};
use crate::runtime::{Endpoint, Listener, tls};

/// The `kind`-specific part of an element of `interfaces:`.
pub trait InterfaceConfig: fmt::Debug + Send + Sync {
    /// The port if the element gives none.
    fn default_port(&self) -> u16;

    /// The protocols that clients may choose in a TLS handshake (ALPN); none = no choice is made.
    fn alpn(&self) -> &'static [&'static [u8]] {
        &[]
    }

    /// Serves what comes to `listener`, until the drain ends it. `kind` is the interface's name in metrics.
    fn serve(&self, core: &Core, kind: &'static str, listener: Listener) -> Serving;
}

/// All kinds of interfaces. A new one is a new folder and a line here.
pub const KINDS: &[Kind<Box<dyn InterfaceConfig>>] = &[
    Kind::built("io.l5d.thriftNameInterpreter", |fields| {
        ThriftConfig::read(fields).map(|config| Box::new(config) as Box<dyn InterfaceConfig>)
    }),
    Kind::built("io.l5d.httpController", |_| Some(Box::new(HttpControllerConfig))),
    Kind::built("io.l5d.mesh", |fields| {
        MeshConfig::read(fields).map(|config| Box::new(config) as Box<dyn InterfaceConfig>)
    }),
    Kind::not_yet("io.l5d.destination"),
];

/// One element of `interfaces:`.
#[derive(Debug)]
pub struct InterfaceBlock {
    /// The kind.
    pub kind: &'static str,
    /// Where it listens: `ip`, loopback by default, and `port`, by default that of the kind.
    pub address: SocketAddr,
    /// Where its port stands, or the element that it comes from.
    pub port_span: Span,
    /// `socketOptions`.
    pub socket_options: SocketOptions,
    /// `tls`, with its files.
    pub tls: Option<tls::Loaded>,
    /// The keys of the kind.
    pub config: Box<dyn InterfaceConfig>,
}

impl InterfaceBlock {
    /// Reads one element. None only if a problem was reported.
    #[must_use]
    pub fn read(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "the interface", report, |fields| {
            let kind = Kind::choose(fields, "interface", KINDS)?;
            let config = kind.reader(fields)?(fields);
            let ip = fields.or("ip", IpAddr::V4(Ipv4Addr::LOCALHOST));
            let port = fields.opt("port").map(|Port(port)| port);
            let socket_options = fields.or("socketOptions", SocketOptions::default());
            let tls = tls::Loaded::read(fields);
            let config = config?;
            let address = SocketAddr::new(ip, port.unwrap_or_else(|| config.default_port()));
            let port_span = fields.span_of("port");
            Some(Self { kind: kind.name, address, port_span, socket_options, tls, config })
        })
    }

    /// Where it is to listen; `place` is that of the element in the list.
    #[must_use]
    pub fn endpoint(&self, place: usize) -> Endpoint {
        let key = format!("interfaces[{place}]");
        Endpoint {
            what: format!("{} interface", self.kind),
            tls: self.tls.clone().map(|loaded| tls::Server::new(key.clone(), loaded.speaking(self.config.alpn()))),
            key,
            address: self.address,
            options: self.socket_options.clone(),
        }
    }

    /// Serves what comes to `listener`, until the drain ends it.
    pub fn serve(&self, core: &Core, listener: Listener) -> Serving {
        self.config.serve(core, self.kind, listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    fn read(interface: &str) -> Result<InterfaceBlock, Vec<String>> {
        read_text("f", interface, "the test", |fields| {
            let node = fields.node("i")?;
            InterfaceBlock::read(node, fields.report())
        })
        .map(|(interface, _)| interface)
        .map_err(|problems| problems.list().iter().map(|problem| problem.message.clone()).collect())
    }

    #[test]
    fn an_interface_listens_on_loopback_at_the_port_of_its_kind() {
        let interface = read("i: {kind: io.l5d.httpController}").expect("valid");
        assert_eq!(interface.address, SocketAddr::from(([127, 0, 0, 1], 4180)));
        let interface =
            read("i: {kind: io.l5d.httpController, ip: 0.0.0.0, port: 0, socketOptions: {backlog: 5}}").expect("valid");
        assert_eq!(interface.address, SocketAddr::from(([0, 0, 0, 0], 0)));
        assert_eq!(interface.socket_options.backlog, Some(5));
    }

    #[test]
    fn experimental_is_not_a_key_of_interfaces() {
        let messages = read("i: {kind: io.l5d.httpController, experimental: true}").expect_err("refused");
        assert!(messages[0].starts_with("Unrecognized field \"experimental\""), "{messages:?}");
    }

    #[test]
    fn tls_is_loaded_when_it_is_read() {
        let tls = |tls: &str| read(&format!("i: {{kind: io.l5d.httpController, tls: {tls}}}"));
        let interface = tls("{certPath: tests/data/tls/rsa.pem, keyPath: tests/data/tls/rsa.key}").expect("valid");
        assert!(interface.endpoint(3).tls.is_some_and(|tls| tls.key() == "interfaces[3]"));
        let messages = tls("{certPath: tests/data/tls/rsa.pem, keyPath: nope}").expect_err("refused");
        assert!(messages[0].starts_with("nope: cannot be read (No such file"), "{messages:?}");
        assert_eq!(tls("{keyPath: b}").expect_err("refused"), ["'certPath' is required for tls"]);
    }

    #[test]
    fn interfaces_that_are_not_built_yet_are_named() {
        let messages = read("i: {kind: io.l5d.destination, ip: x, cache: {}}").expect_err("refused");
        assert_eq!(messages, ["io.l5d.destination: not built yet"]);
    }
}
