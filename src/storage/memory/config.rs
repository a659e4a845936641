//! Keys of `io.l5d.inMemory`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::MemoryStorage;
use crate::config::Fields;
use crate::name::Dtab;
use crate::storage::{Storage, StorageConfig, StorageParts};

/// The `io.l5d.inMemory` storage: dtabs in the memory of the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryConfig {
    /// `namespaces`: what it holds at the start.
    pub namespaces: BTreeMap<String, Dtab>,
}

impl MemoryConfig {
    /// Reads the keys. None only if a problem was reported.
    #[must_use]
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { namespaces: fields.opt("namespaces").unwrap_or_default() })
    }
}

impl StorageConfig for MemoryConfig {
    fn build(&self, _parts: &StorageParts) -> Result<Arc<dyn Storage>, String> {
        Ok(Arc::new(MemoryStorage::new(self.namespaces.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        read_text("f", text, "the io.l5d.inMemory storage", MemoryConfig::read)
            .map(|(config, _)| config.namespaces.into_iter().map(|(name, dtab)| (name, dtab.to_string())).collect())
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn namespaces_may_be_numbers_and_dtabs_may_be_empty() {
        let pair = |name: &str, dtab: &str| (name.to_owned(), dtab.to_owned());
        assert_eq!(
            read("namespaces:\n  1: /svc => /a\n  default: \"\"\n  none:\n"),
            Ok(vec![pair("1", "/svc=>/a"), pair("default", ""), pair("none", "")])
        );
        assert_eq!(read("{}"), Ok(Vec::new()));
    }

    #[test]
    fn every_malformed_dtab_is_reported_with_its_place() {
        let problems = read("namespaces:\n  a: /svc >= /a\n  b: |\n    /x => /y;\n    /z\n").expect_err("refused");
        assert!(problems.contains("f:2:11: '=' expected but '>' found at '/svc [>]= /a'"), "{problems}");
        assert!(problems.contains("f:5:7: '=' expected but"), "{problems}");
    }
}
