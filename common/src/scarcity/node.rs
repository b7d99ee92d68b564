//! A node as agents report it, where a pool's capacity is that of its nodes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Amount;
use crate::{digest::Digest, invalid::Invalid};

/// By what a node is known: a hash of its name, so that agents on the same node mean the same one, and the coordinator
/// learns no names. Sixteen hexadecimal digits on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^[0-9a-f]{16}$"))]
pub struct NodeId(pub u64);

impl NodeId {
    /// The node of a name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let digest = Digest::of(name.as_bytes());
        Self(digest.bytes().iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte)))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for NodeId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let digits = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let id = u64::from_str_radix(text, 16).ok().filter(|_| digits).map(Self);
        id.ok_or_else(|| Invalid::new("id", format!("{text:?}"), "sixteen of 0-9, a-f"))
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = NodeId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("sixteen of 0-9, a-f")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<NodeId, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// What a node has for pods.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Which one.
    pub id: NodeId,
    /// What pods on it may reserve together.
    pub allocatable: Amount,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_reads_back_as_written_and_nothing_else() {
        let text = r#"{"id":"00000000000000ff","allocatable":{"cores":8.0,"memory_gib":32.0}}"#;
        let node: Node = serde_json::from_str(text).unwrap();
        assert_eq!((node.id, node.allocatable.cores.get()), (NodeId(255), 8.0));
        assert_eq!(serde_json::to_string(&node).unwrap(), text);
        for bad in ["ff", "00000000000000FF", "+0000000000000ff", "00000000000000fff", ""] {
            let error = serde_json::from_str::<Node>(&text.replace("00000000000000ff", bad)).unwrap_err();
            assert!(error.to_string().contains("sixteen"), "{error}");
        }
        assert_eq!(NodeId::of("node-1"), NodeId::of("node-1"));
        assert_ne!(NodeId::of("node-1"), NodeId::of("node-2"));
    }
}
