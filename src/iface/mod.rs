//! iface
