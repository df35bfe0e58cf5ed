//! A Rust file as the rules see it: tokens with lines. Comments and strings are not
//! mistaken for code, and the arguments of macros are read.

use proc_macro2::{Delimiter, Group, LineColumn, TokenStream, TokenTree};

/// One token, flattened out of its groups.
#[derive(Clone, Debug)]
pub struct Token {
    /// An identifier, a literal, one character of punctuation, or a bracket.
    pub text: String,
    /// Its line, counted from 1.
    pub line: usize,
    /// True if only tests or planted bugs compile it.
    pub gated: bool,
    /// Number of inline modules around it.
    pub nesting: usize,
}

/// A function with its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, without the path.
    pub name: String,
    /// Its first line.
    pub line: usize,
    /// Number of lines from `fn` to the closing brace.
    pub lines: usize,
}

/// A parsed file.
#[derive(Clone, Debug, Default)]
pub struct Source {
    tokens: Vec<Token>,
    functions: Vec<Function>,
}

impl Source {
    /// Reads a file; `None` if it does not consist of Rust tokens.
    #[must_use]
    pub fn parse(path: &str, text: &str) -> Option<Self> {
        let stream: TokenStream = text.parse().ok()?;
        let mut source = Self::default();
        source.walk(stream, is_test_code(path), 0);
        Some(source)
    }

    /// Returns the tokens in order, brackets included.
    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns the functions, including those inside macro calls.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Returns the first token of every occurrence of `pattern`, whose tokens are separated by spaces.
    pub fn find(&self, pattern: &str) -> impl Iterator<Item = &Token> {
        let pattern: Vec<String> = pattern.split(' ').map(str::to_owned).collect();
        self.tokens
            .windows(pattern.len())
            .filter(move |window| window.iter().zip(&pattern).all(|(t, p)| t.text == *p))
            .filter_map(|window| window.first())
    }

    fn walk(&mut self, stream: TokenStream, gated: bool, nesting: usize) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut item_gated = false;
        for (index, tree) in trees.iter().enumerate() {
            let before = |n: usize| index.checked_sub(n).and_then(|i| trees.get(i));
            let here = gated || item_gated;
            match tree {
                TokenTree::Group(group) => {
                    let names_mod = before(2).is_some_and(|tree| is_ident(tree, "mod"));
                    let is_mod = group.delimiter() == Delimiter::Brace && names_mod;
                    if before(1).is_some_and(|tree| tree.to_string() == "#") {
                        item_gated |= is_gate(group);
                    }
                    self.group(group, here, nesting + usize::from(is_mod));
                    if group.delimiter() == Delimiter::Brace {
                        item_gated = false;
                    }
                }
                leaf => {
                    let text = leaf.to_string();
                    if text == "fn" {
                        self.function(&trees[index..]);
                    }
                    let ends_item = text == ";" || text == ",";
                    self.push(text, leaf.span().start(), here, nesting);
                    item_gated &= !ends_item;
                }
            }
        }
    }

    fn group(&mut self, group: &Group, gated: bool, nesting: usize) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        self.push(open.into(), group.span_open().start(), gated, nesting);
        self.walk(group.stream(), gated, nesting);
        self.push(close.into(), group.span_close().start(), gated, nesting);
    }

    fn push(&mut self, text: String, start: LineColumn, gated: bool, nesting: usize) {
        self.tokens.push(Token {
            text,
            line: start.line,
            gated,
            nesting,
        });
    }

    /// Records the function that `trees` begin with, if it has a name and a body.
    fn function(&mut self, trees: &[TokenTree]) {
        let [begin, TokenTree::Ident(name), rest @ ..] = trees else {
            return;
        };
        let body = rest.iter().find_map(|tree| match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(Some(group)),
            TokenTree::Punct(punct) if punct.as_char() == ';' => Some(None),
            _ => None,
        });
        if let Some(Some(body)) = body {
            let line = begin.span().start().line;
            self.functions.push(Function {
                name: name.to_string(),
                line,
                lines: body.span_close().end().line + 1 - line,
            });
        }
    }
}

/// Returns true if a file has only tests or benchmarks.
#[must_use]
pub fn is_test_code(path: &str) -> bool {
    let within = |dir: &str| path.starts_with(&dir[1..]) || path.contains(dir);
    within("/tests/") || within("/benches/")
}

fn is_ident(tree: &TokenTree, name: &str) -> bool {
    matches!(tree, TokenTree::Ident(ident) if ident == name)
}

/// Returns true if an attribute is a `cfg` of `test` or of planted bugs.
fn is_gate(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    let names = text.contains("test") || text.contains("\"planted\"");
    text.starts_with("cfg(") && names && !text.contains("not(")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, pattern: &str) -> Vec<(usize, bool)> {
        let source = Source::parse("a/src/b.rs", text).unwrap();
        let found = source.find(pattern);
        found.map(|token| (token.line, token.gated)).collect()
    }

    #[test]
    fn comments_and_strings_are_not_code_and_macros_are() {
        let text = "// a::b\nconst X: &str = \"a::b\";\nfn f() {\n  m!(if a::b {});\n}\n";
        assert_eq!(lines(text, "a : : b"), [(4, false)]);
    }

    #[test]
    fn what_only_tests_compile_is_gated() {
        let text = "#[cfg(test)]\nuse a;\n#[cfg(feature = \"planted\")]\nmod x { use a; }\n\
                    #[cfg(not(test))]\nuse a;\n#[cfg(feature = \"serde\")]\nuse a;\n";
        let expect = [(2, true), (4, true), (6, false), (8, false)];
        assert_eq!(lines(text, "use a"), expect);
    }

    #[test]
    fn functions_are_measured_from_the_keyword_to_the_brace() {
        let text = "/// doc\nfn a() {\n}\ntrait T { fn b(); }\nm! {\n fn c(\n ) {\n }\n}\n";
        let source = Source::parse("a/src/b.rs", text).unwrap();
        let found: Vec<_> = source
            .functions()
            .iter()
            .map(|f| (f.name.as_str(), f.line, f.lines))
            .collect();
        assert_eq!(found, [("a", 2, 2), ("c", 6, 3)]);
    }
}
