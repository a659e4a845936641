//! Where rosterd answers otherwise than the recorded namerd, on purpose.

/// (recording, status, why). The messages are as recorded.
pub const STATUSES: &[(&str, u16, &str)] = &[
    ("GetBoundTree-empty-segment", 3, "what a client sent wrongly is INVALID_ARGUMENT"),
    ("StreamBoundTree-empty-segment", 3, "a status, where namerd resets the stream"),
    ("GetBoundTree-bad-dentry", 3, "what a client sent wrongly is INVALID_ARGUMENT"),
    ("StreamBoundTree-bad-dentry", 3, "a status, where namerd resets the stream"),
    ("GetDelegateTree-unset-tree", 3, "what a client sent wrongly is INVALID_ARGUMENT"),
    ("empty-body", 13, "the text is not the JVM's"),
    ("empty-body-stream", 13, "a status, where namerd resets the stream"),
    ("garbage-message", 3, "what a client sent wrongly is INVALID_ARGUMENT"),
    ("garbage-message-stream", 3, "a status, where namerd resets the stream"),
];

/// (recording, why it is not replayed). Stories of their own tell what happens there.
pub const NOT_REPLAYED: &[(&str, &str)] = &[
    ("StreamBoundTree-updates", "equal trees are not repeated, and a good tree outlives a failing dtab"),
    ("StreamReplicas-updates", "files that are written in place show no empty set in between"),
    ("StreamDtab-updates", "a story below"),
    ("sigterm-open-stream", "streams end with their trailers before the GOAWAY; a story below"),
];
