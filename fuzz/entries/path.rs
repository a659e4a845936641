//! Any bytes as a path: as text it is read or refused, and cutting and joining agree with the list of elements.

use rosterd::name::{NameTree, Path, Prefix};

pub fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let tree = NameTree::parse(text);
        let prefix = Prefix::parse(text);
        match Path::parse(text) {
            Ok(path) => {
                check(&path);
                assert_eq!(tree, Ok(NameTree::Leaf(path.clone())), "a path is a tree of one leaf");
                assert_eq!(prefix, Ok(Prefix::from(path.clone())), "a path is a prefix without wildcards");
                assert!(Prefix::from(path.clone()).matches(&path));
            }
            Err(error) => assert!(error.position() <= text.chars().count(), "{error}"),
        }
    }
    // The same bytes as raw elements, which need not be text.
    let elems = || data.split(|byte| *byte == 0);
    match Path::from_elems(elems()) {
        Ok(path) => {
            assert!(path.elems().eq(elems()));
            check(&path);
        }
        Err(_) => assert!(elems().any(<[u8]>::is_empty)),
    }
}

fn check(path: &Path) {
    // Raw elements may be more than the reader takes.
    let read = Path::parse(&path.to_string());
    assert!(read.as_ref() == Ok(path) || read.is_err_and(|error| error.limit().is_some()), "{path}");
    let len = path.len();
    for n in [0, 1, len / 2, len, len + 1] {
        let (head, tail) = (path.take(n), path.drop(n));
        assert_eq!(head.len(), n.min(len));
        assert_eq!(head.concat(&tail), *path);
        assert!(path.starts_with(&head));
        assert_eq!(path.strip_prefix(&head), Some(tail));
    }
}
