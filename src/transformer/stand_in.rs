//! `io.l5d.replace` and `io.l5d.const`: another name in the place of the answer.

use super::{ConstConfig, Effect, ReplaceConfig, Transformer, TransformerConfig, TransformerParts, id_prefix};
use crate::name::Path;

impl TransformerConfig for ReplaceConfig {
    fn build(&self, prefix: Option<&Path>, _: &TransformerParts) -> Result<Transformer, String> {
        let id_prefix = id_prefix(prefix, &["io.l5d.replace"]);
        Ok(Transformer { id_prefix, effect: Effect::Replace(self.path.clone()) })
    }
}

impl TransformerConfig for ConstConfig {
    fn build(&self, prefix: Option<&Path>, _: &TransformerParts) -> Result<Transformer, String> {
        let id_prefix = id_prefix(prefix, &["io.l5d.const"]);
        Ok(Transformer { id_prefix, effect: Effect::Const(self.path.clone()) })
    }
}
