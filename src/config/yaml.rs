//! YAML events to a tree.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span as YamlSpan, Tag};

use super::report::Report;
use super::source::{FileId, Source, Span, number};
use super::tree::{Entry, MAX_BYTES, MAX_DEPTH, MAX_NODES, Node, Scalar, Value};

/// Reads the first document of `text`.
pub(super) fn parse(text: &str, file: FileId, report: &Report) -> Option<Node> {
    let mut builder = Builder {
        file,
        end: report.source(file).map(Source::end).unwrap_or_default(),
        report,
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes_left: MAX_NODES,
        alias_bytes_left: MAX_BYTES,
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                let place = *error.marker();
                report.problem(builder.span(YamlSpan::new(place, place)), error.info());
                return None;
            }
        };
        match builder.accept(event, builder.span(span)) {
            Step::More => {}
            Step::Document(root) => return Some(root),
            Step::Refused => return None,
        }
    }
    Some(Node::plain("", Span::start_of(file)))
}

enum Step {
    More,
    Document(Node),
    Refused,
}

/// A list or mapping that has not ended yet.
struct Open {
    span: Span,
    anchor: usize,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, places: HashMap<String, Span>, key: Option<(Option<String>, Span)>, merged: Vec<Node> },
}

struct Builder<'a> {
    file: FileId,
    /// Line and column behind the last character.
    end: (u32, u32),
    report: &'a Report,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, Size)>,
    nodes_left: usize,
    alias_bytes_left: usize,
}

impl Builder<'_> {
    fn span(&self, span: YamlSpan) -> Span {
        // The parser sees the end of the file on a line of its own.
        let place = |marker: Marker| (number(marker.line()).max(1), number(marker.col()) + 1).min(self.end);
        let ((line, column), (end_line, end_column)) = (place(span.start), place(span.end));
        Span { file: self.file, line, column, end_line, end_column }
    }

    fn accept(&mut self, event: Event<'_>, span: Span) -> Step {
        match event {
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => Step::More,
            // A document without any node.
            Event::DocumentEnd | Event::StreamEnd => Step::Document(Node::plain("", Span::start_of(self.file))),
            Event::SequenceStart(anchor, _) => self.begin(span, anchor, Items::List(Vec::new())),
            Event::MappingStart(anchor, _) => {
                let (entries, places, merged) = (Vec::new(), HashMap::new(), Vec::new());
                self.begin(span, anchor, Items::Map { entries, places, key: None, merged })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => self.end(open, span),
                None => Step::Refused,
            },
            Event::Scalar(text, style, anchor, tag) => {
                let quoted = !matches!(style, ScalarStyle::Plain) || tag.is_some_and(|tag| is_str(&tag));
                self.place(Node { span, value: Value::Scalar(Scalar { text: text.into_owned(), quoted }) }, anchor)
            }
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor) else {
                    self.report.problem(span, "this alias names an anchor that encloses it");
                    return Step::Refused;
                };
                let (node, size) = (Node { span, value: node.value.clone() }, *size);
                if self.open.len() + size.depth > MAX_DEPTH {
                    return self.too_deep(span);
                }
                if !self.charge(size, span) {
                    return Step::Refused;
                }
                self.place(node, 0)
            }
        }
    }

    fn begin(&mut self, span: Span, anchor: usize, items: Items) -> Step {
        if self.open.len() == MAX_DEPTH {
            return self.too_deep(span);
        }
        self.open.push(Open { span, anchor, items });
        Step::More
    }

    fn too_deep(&self, span: Span) -> Step {
        self.report.problem(span, format!("more than {MAX_DEPTH} levels within each other"));
        Step::Refused
    }

    /// Takes the size of a copied tree from what is left.
    fn charge(&mut self, size: Size, span: Span) -> bool {
        match (self.nodes_left.checked_sub(size.nodes), self.alias_bytes_left.checked_sub(size.bytes)) {
            (Some(nodes), Some(bytes)) => {
                (self.nodes_left, self.alias_bytes_left) = (nodes, bytes);
                true
            }
            _ => {
                self.report.problem(span, "the aliases of this file repeat too much");
                false
            }
        }
    }

    fn end(&mut self, open: Open, end: Span) -> Step {
        let span = Span { end_line: end.end_line, end_column: end.end_column, ..open.span };
        let value = match open.items {
            Items::List(items) => Value::List(items),
            Items::Map { mut entries, mut places, merged, .. } => {
                // The first mapping that has a key wins, the mapping's own entries before all.
                for node in merged {
                    let Value::Map(others) = node.value else { continue };
                    for entry in others {
                        if places.insert(entry.key.clone(), entry.key_span).is_none() {
                            entries.push(entry);
                        }
                    }
                }
                Value::Map(entries)
            }
        };
        self.place(Node { span, value }, open.anchor)
    }

    /// Puts a complete node where it belongs.
    fn place(&mut self, node: Node, anchor: usize) -> Step {
        let Some(left) = self.nodes_left.checked_sub(1) else {
            self.report.problem(node.span, format!("the file has more than {MAX_NODES} values"));
            return Step::Refused;
        };
        self.nodes_left = left;
        if anchor > 0 {
            let size = Size::of(&node);
            if !self.charge(size, node.span) {
                return Step::Refused;
            }
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(parent) = self.open.last_mut() else { return Step::Document(node) };
        match &mut parent.items {
            Items::List(items) => items.push(node),
            Items::Map { entries, places, key, merged } => match key.take() {
                None => *key = Some(key_of(node, self.report)),
                Some((None, _)) => {}
                Some((Some(name), key_span)) => match places.get(&name) {
                    Some(first) => duplicate(&name, key_span, *first, self.report),
                    None if name == "<<" => merge(node, merged, self.report),
                    None => {
                        places.insert(name.clone(), key_span);
                        entries.push(Entry { key: name, key_span, value: node });
                    }
                },
            },
        }
        Step::More
    }
}

/// The key that a node makes; none, with a problem, if it is not a scalar.
fn key_of(node: Node, report: &Report) -> (Option<String>, Span) {
    match node.value {
        Value::Scalar(scalar) => (Some(scalar.text), node.span),
        Value::List(_) | Value::Map(_) => {
            report.problem(node.span, format!("a key must be text, found {}", node.describe()));
            (None, node.span)
        }
    }
}

/// Reports a key that a mapping has twice.
pub(super) fn duplicate(name: &str, span: Span, first: Span, report: &Report) {
    report.problem(span, format!("Duplicate field '{name}', already given at {}", report.place(first)));
}

fn merge(node: Node, merged: &mut Vec<Node>, report: &Report) {
    match node.value {
        Value::Map(_) => merged.push(node),
        Value::List(items) if items.iter().all(|item| matches!(item.value, Value::Map(_))) => merged.extend(items),
        Value::List(_) | Value::Scalar(_) => report.problem(node.span, "'<<' takes a mapping or a list of mappings"),
    }
}

/// What a copy of a tree costs.
#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    bytes: usize,
    depth: usize,
}

impl Size {
    /// Recursion is bounded: trees are never deeper than [`MAX_DEPTH`].
    fn of(node: &Node) -> Self {
        match &node.value {
            Value::Scalar(scalar) => Self { nodes: 1, bytes: scalar.text.len(), depth: 0 },
            Value::List(items) => Self::sum(items.iter().map(Self::of)),
            Value::Map(entries) => Self::sum(entries.iter().map(|entry| {
                let value = Self::of(&entry.value);
                Self { bytes: value.bytes + entry.key.len(), ..value }
            })),
        }
    }

    fn sum(parts: impl Iterator<Item = Self>) -> Self {
        parts.fold(Self { nodes: 1, bytes: 0, depth: 1 }, |sum, part| Self {
            nodes: sum.nodes + part.nodes,
            bytes: sum.bytes + part.bytes,
            depth: sum.depth.max(part.depth + 1),
        })
    }
}

fn is_str(tag: &Tag) -> bool {
    tag.is_yaml_core_schema() && tag.suffix == "str"
}
