//! What comes to a port that is meant for something else.

/// What a client probably speaks, from the first bytes that it sent.
#[must_use]
pub fn guess(first: &[u8]) -> &'static str {
    const METHODS: [&[u8]; 8] = [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT "];
    match first {
        [0x16, 0x03, ..] => "TLS",
        [b'P', b'R', b'I', b' ', ..] => "HTTP/2 (gRPC)",
        [b'P', b'R', b'O', b'X', b'Y', b' ', ..] | [b'\r', b'\n', b'\r', b'\n', 0, ..] => {
            "the PROXY protocol of a load balancer"
        }
        [0, 0, ..] => "thrift or ThriftMux",
        _ if METHODS.iter().any(|method| first.starts_with(method)) => "HTTP/1.1",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_by_their_first_bytes() {
        for (first, speaks) in [
            (&b"\x16\x03\x01\x02\x00\x01"[..], "TLS"),
            (b"PRI * HTTP/2.0\r\n", "HTTP/2 (gRPC)"),
            (b"GET / HTTP/1.1\r\n", "HTTP/1.1"),
            (b"PROXY TCP4 10.0.0.1", "the PROXY protocol of a load balancer"),
            (b"\r\n\r\n\0\r\nQUIT\n", "the PROXY protocol of a load balancer"),
            (b"\0\0\0\x04\x41\0\0\x01", "thrift or ThriftMux"),
            (b"G", "something else"),
            (b"", "something else"),
        ] {
            assert_eq!(guess(first), speaks, "{first:?}");
        }
    }
}
