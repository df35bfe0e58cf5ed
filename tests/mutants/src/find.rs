//! Finds the mutants of a file. Each is a text before and a text after a piece of the source, which itself stays, so that any number of them fit into
//! one file: `a < b` becomes `(if on(7) { a <= b } else { a < b })`. No text has a line break, so lines keep their numbers.

use proc_macro2::Span;
use quote::ToTokens;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Expr, ReturnType, Stmt, Type, UnOp};

/// One wrong edit.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// Its file, from the root of the tree.
    pub(crate) file: String,
    /// Its line in the source.
    pub(crate) line: usize,
    /// Its change in words, with the function.
    pub(crate) change: String,
    /// The bytes of the source that stay within it.
    pub(crate) stays: Range<usize>,
    /// Text before them; `#` stands for its number.
    pub(crate) before: String,
    /// Text after them.
    pub(crate) after: &'static str,
}

/// The condition of a mutant, as written in its text.
const ON: &str = "crate::mutant_switch::on(#)";

/// All mutants of a file.
///
/// # Errors
/// If the source is not Rust.
pub(crate) fn find(file: &str, source: &str) -> syn::Result<Vec<Mutant>> {
    let mut finder = Finder {
        file,
        source,
        within: Vec::new(),
        mutants: Vec::new(),
    };
    finder.visit_file(&syn::parse_file(source)?);
    Ok(finder.mutants)
}

struct Finder<'a> {
    file: &'a str,
    source: &'a str,
    /// The types and functions around.
    within: Vec<String>,
    mutants: Vec<Mutant>,
}

impl Finder<'_> {
    fn add(
        &mut self,
        change: &str,
        span: Span,
        stays: Range<usize>,
        before: String,
        after: &'static str,
    ) {
        if self.within.is_empty() || self.source[stays.clone()].contains("planted") {
            return;
        }
        let change = format!("{change} in {}", self.within.join("::"));
        self.mutants.push(Mutant {
            file: self.file.to_owned(),
            line: span.start().line,
            change,
            stays,
            before,
            after,
        });
    }

    /// An expression that another one takes the place of.
    fn replaced(&mut self, change: &str, whole: Span, other: &str) {
        let before = format!("(if {ON} {{ {} }} else {{ ", other.replace('\n', " "));
        self.add(change, whole, whole.byte_range(), before, " })");
    }

    fn text(&self, span: Span) -> String {
        without_comments(&self.source[span.byte_range()])
    }

    fn function(
        &mut self,
        attributes: &[Attribute],
        signature: &syn::Signature,
        block: &syn::Block,
    ) {
        let name = signature.ident.to_string();
        if for_tests(attributes)
            || signature.constness.is_some()
            || name.contains("planted")
            || name == "main"
            || name == "holds_its_invariants"
        {
            return;
        }
        self.within.push(name);
        let inside = block.brace_token.span.open().byte_range().end;
        if !block.stmts.is_empty() {
            for value in values(&signature.output) {
                let shown = if value.is_empty() { "()" } else { &value };
                self.add(
                    &format!("return {shown}"),
                    block.brace_token.span.open(),
                    inside..inside,
                    format!(" if {ON} {{ return {value}; }} "),
                    "",
                );
            }
        }
        visit::visit_block(self, block);
        self.within.pop();
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let shown = block
            .trait_
            .as_ref()
            .and_then(|(_, path, _)| path.segments.last())
            .is_some_and(|last| last.ident == "Debug" || last.ident == "Display");
        if shown || for_tests(&block.attrs) {
            return;
        }
        self.within
            .push(block.self_ty.to_token_stream().to_string().replace(' ', ""));
        visit::visit_item_impl(self, block);
        self.within.pop();
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.attrs, &function.sig, block);
        }
    }

    fn visit_expr_binary(&mut self, both: &'ast syn::ExprBinary) {
        let (left, right) = (self.text(both.left.span()), self.text(both.right.span()));
        let operator = both.op.to_token_stream().to_string();
        // The second half of a chain of `let` is no expression of its own.
        let chain = has_let(&both.left) || has_let(&both.right);
        for other in if chain { &[][..] } else { others(&both.op) } {
            self.replaced(
                &format!("replace {operator} with {other}"),
                both.span(),
                &format!("{left} {other} {right}"),
            );
        }
        visit::visit_expr_binary(self, both);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if let UnOp::Not(_) = unary.op {
            let other = self.text(unary.expr.span());
            self.replaced("delete !", unary.span(), &other);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        // A call for its effect alone: a count, a message, a change of state.
        if let Stmt::Expr(call @ (Expr::MethodCall(_) | Expr::Call(_)), Some(_)) = statement {
            let name = match call {
                Expr::MethodCall(call) => call.method.to_string(),
                Expr::Call(call) => call.func.to_token_stream().to_string().replace(' ', ""),
                _ => return,
            };
            self.add(
                &format!("delete {name}(…)"),
                statement.span(),
                statement.span().byte_range(),
                format!("if !{ON} {{ "),
                " }",
            );
        }
        visit::visit_stmt(self, statement);
    }

    // What the compiler computes cannot ask the environment, and a pattern is no expression.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, _: &'ast syn::ExprRepeat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_angle_bracketed_generic_arguments(
        &mut self,
        _: &'ast syn::AngleBracketedGenericArguments,
    ) {
    }
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let words = attribute.to_token_stream().to_string();
        words.contains("test") || words.contains("planted") || words.contains("loom")
    })
}

fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

/// The boundary and the opposite of a comparison, and the counterpart of any other operator.
fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["/"],
        BinOp::Div(_) => &["*"],
        BinOp::Rem(_) => &["/"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        _ => &[],
    }
}

/// The values that a function may return instead of its own.
fn values(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec![String::new()],
        ReturnType::Type(_, output) => of_type(output),
    }
}

fn of_type(output: &Type) -> Vec<String> {
    let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
    match output {
        Type::Tuple(tuple) if tuple.elems.is_empty() => words(&["()"]),
        Type::Reference(to) if matches!(&*to.elem, Type::Path(path) if path.path.is_ident("str")) => {
            words(&["\"\""])
        }
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else {
                return Vec::new();
            };
            match last.ident.to_string().as_str() {
                "bool" => words(&["true", "false"]),
                "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i32" | "i64" | "i128" => {
                    words(&["0", "1"])
                }
                "Option" => words(&["None"]),
                "Result" => {
                    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
                        return Vec::new();
                    };
                    let Some(syn::GenericArgument::Type(first)) = arguments.args.first() else {
                        return Vec::new();
                    };
                    of_type(first)
                        .iter()
                        .map(|value| format!("Ok({value})"))
                        .collect()
                }
                "Self" => Vec::new(),
                _ => words(&["Default::default()"]),
            }
        }
        _ => Vec::new(),
    }
}

/// A copy on one line cannot have comments that end with it.
fn without_comments(source: &str) -> String {
    let code = source.lines().map(|line| {
        if line.trim_start().starts_with("//") {
            ""
        } else {
            line.split(" // ").next().unwrap_or(line)
        }
    });
    code.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::find;
    use crate::tree::render;

    fn check(source: &str, expect: &[&str]) {
        let mutants = find("x.rs", source).unwrap();
        let changes: Vec<_> = mutants
            .iter()
            .map(|mutant| mutant.change.as_str())
            .collect();
        assert_eq!(changes, expect, "{source}");
        let numbered: Vec<_> = mutants
            .iter()
            .zip(1..)
            .map(|(mutant, number)| (number, mutant))
            .collect();
        syn::parse_file(&render(source, &numbered).text).unwrap();
    }

    #[test]
    fn each_edit_is_found_and_named() {
        check(
            "fn f(a: u8) -> bool { a < 3 }",
            &[
                "return true in f",
                "return false in f",
                "replace < with <= in f",
                "replace < with >= in f",
            ],
        );
        check(
            "impl A { fn f(&mut self) { self.n += 1; g(1); } }",
            &[
                "return () in A::f",
                "replace += with -= in A::f",
                "delete g(…) in A::f",
            ],
        );
        check(
            "fn f() -> Result<(), E> { if !a && b || c {} Ok(()) }",
            &[
                "return Ok(()) in f",
                "replace || with && in f",
                "replace && with || in f",
                "delete ! in f",
            ],
        );
        check(
            "fn f() -> &'static str { match 1 { 2 if x == y => {} _ => {} } \"b\" }",
            &["return \"\" in f", "replace == with != in f"],
        );
    }

    #[test]
    fn what_cannot_be_asked_at_run_time_is_left_alone() {
        check("const fn f(a: u8) -> bool { a < 3 }", &[]);
        check(
            "const N: u8 = 1 + 2; static M: [u8; 1 + 2] = [0; 1 + 2]; enum E { A = 1 + 2 }",
            &[],
        );
        check("#[cfg(test)] mod tests { fn f() -> bool { a < 3 } }", &[]);
        check("impl Debug for A { fn fmt(&self) -> bool { a < 3 } }", &[]);
        check("fn f() -> ! { if let Some(a) = b && c {} loop {} }", &[]);
    }

    #[test]
    fn edits_of_one_place_lie_within_each_other() {
        let source = "fn f() -> ! { x(a == b && c == d) }";
        let mutants = find("x.rs", source).unwrap();
        let numbered: Vec<_> = mutants
            .iter()
            .zip(1..)
            .map(|(mutant, number)| (number, mutant))
            .collect();
        assert_eq!(
            render(source, &numbered)
                .text
                .replace("crate::mutant_switch::", ""),
            "fn f() -> ! { x((if on(1) { a == b || c == d } else { (if on(2) { a != b } else { a == b }) && (if on(3) { c != d } else { c == d }) })) }"
        );
    }
}
