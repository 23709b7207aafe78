//! `cachelift graph`: a model drawn, each node with where its kernel came from and how long it took.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::super::exit::Exit;
use super::super::output::Output;
use super::{Mode, npy};
use crate::config::Config;
use crate::graph::explain::{Explained, Role, Seen, explain, profile};
use crate::graph::{Prepared, Session, Tensor, onnx};
use crate::store::{Origin, Store};

const STYLE: &str = include_str!("picture.css");

/// Draw an ONNX model as a page of HTML
///
/// Each node is coloured by where its kernel came from: compiled now, or loaded. Where inputs are given, or the model fixes
/// the shapes of its inputs, it is also run, and each node says how long it took.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// The model
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Where the page is written
    #[arg(long, value_name = "FILE")]
    html: PathBuf,

    /// How the graph is run
    #[arg(long, value_name = "MODE", default_value = "fused")]
    mode: Mode,

    /// An input, from a file of NumPy's; inputs that are left out are zeros
    #[arg(long = "input", value_name = "NAME=FILE")]
    inputs: Vec<String>,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, config: Config, output: Output) -> Exit {
    match page(arguments, config) {
        Ok(()) => output.finish(Exit::Ok),
        Err(error) => {
            output.error(error);
            output.finish(Exit::Failed)
        }
    }
}

fn page(arguments: &Arguments, config: Config) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", arguments.model.display());
    let seen = Seen::of(&config);
    let session = Session::new(Store::open(config)).map_err(|error| failed(&error))?;
    let model = onnx::read(&arguments.model).map_err(|error| failed(&error))?;
    let prepared =
        session.prepare(&model, arguments.mode.into()).map_err(|error| failed(&error))?;
    let mut given: Vec<Option<Tensor>> = prepared.inputs().iter().map(zeros).collect();
    for input in &arguments.inputs {
        let (name, path) =
            input.split_once('=').ok_or(format!("--input {input}: expected NAME=FILE.npy"))?;
        let place = prepared.inputs().iter().position(|input| input.name == name);
        let place = place.ok_or(format!("--input {input}: the model has no such input"))?;
        given[place] = Some(npy::read(path.as_ref())?);
    }
    let complete =
        given.iter().zip(prepared.inputs()).all(|(given, input)| given.is_some() || input.optional);
    let given = complete.then_some(given);
    let times = match &given {
        Some(given) => profile(&prepared, given.clone()).map_err(|error| failed(&error))?,
        None => Vec::new(),
    };
    let title = arguments.model.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let nodes = explain(&prepared, given.as_deref());
    let text = html(&title, &prepared, &nodes, &times, &seen);
    fs::write(&arguments.html, text)
        .map_err(|error| format!("{}: {error}", arguments.html.display()))
}

/// Zeros for an input whose shape is fixed.
fn zeros(input: &crate::graph::Input) -> Option<Tensor> {
    use crate::graph::model::Dim;
    if input.optional {
        return None;
    }
    let dims = input.ty.dims.as_ref()?.iter().map(|dim| match dim {
        Dim::Known(size) => Some(*size),
        _ => None,
    });
    Tensor::zeros(input.ty.element?, &dims.collect::<Option<Vec<_>>>()?).ok()
}

const WIDTH: usize = 220;
const HEIGHT: usize = 58;
const GAP: usize = 26;

fn html(
    title: &str,
    prepared: &Prepared,
    nodes: &[Explained],
    times: &[u64],
    seen: &Seen,
) -> String {
    // A node's row is one below the lowest of those that it reads.
    let mut rows = vec![0_usize; nodes.len()];
    let mut columns = vec![0_usize; nodes.len()];
    let mut widths: Vec<usize> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        rows[at] = node.reads.iter().map(|read| rows[*read] + 1).max().unwrap_or(0);
        if widths.len() <= rows[at] {
            widths.resize(rows[at] + 1, 0);
        }
        columns[at] = widths[rows[at]];
        widths[rows[at]] += 1;
    }
    let widest = widths.iter().max().copied().unwrap_or(1).max(1);
    let x = |at: usize| {
        let slack = (widest - widths[rows[at]]) * (WIDTH + GAP) / 2;
        GAP + slack + columns[at] * (WIDTH + GAP)
    };
    let y = |at: usize| GAP + rows[at] * (HEIGHT + GAP);
    let (w, h) = (widest * (WIDTH + GAP) + GAP, widths.len() * (HEIGHT + GAP) + GAP);

    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n");
    let _ = write!(
        page,
        "<meta name=\"viewport\" content=\"width=device-width\"><title>{0}</title>\n<style>{STYLE}</style>\n\
         <main><h1>{0}</h1><p>{1} nodes, {2}, key {3}</p>\n\
         <p class=legend><span class=made>compiled now</span> <span class=loaded>loaded</span> \
         <span class=free>no kernel of its own</span> <span class=late>known in a run alone</span></p>\n",
        escape(title),
        nodes.len(),
        prepared.mode().name(),
        prepared.key()
    );
    let _ = writeln!(page, "<svg width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\">");
    for (at, node) in nodes.iter().enumerate() {
        for &read in &node.reads {
            let (x1, y1) = (x(read) + WIDTH / 2, y(read) + HEIGHT);
            let (x2, y2) = (x(at) + WIDTH / 2, y(at));
            let bend = (y1 + y2) / 2;
            let _ = writeln!(page, "<path d=\"M{x1} {y1}C{x1} {bend} {x2} {bend} {x2} {y2}\"/>");
        }
    }
    for (at, node) in nodes.iter().enumerate() {
        let class = match &node.role {
            Role::Kernels(kernels)
                if kernels.iter().any(|kernel| kernel.origin() == Origin::Made) =>
            {
                "made"
            }
            Role::Kernels(_) => "loaded",
            Role::Free => "free",
            Role::Late => "late",
        };
        let mut about = match &node.role {
            Role::Kernels(kernels) => kernels
                .iter()
                .map(|kernel| match kernel.micros() {
                    0 => kernel.origin().to_string(),
                    us => format!("{} in {us} µs", kernel.origin()),
                })
                .collect::<Vec<_>>()
                .join(", "),
            Role::Free => String::new(),
            Role::Late => "known in a run".into(),
        };
        if let Some(&time) = times.get(at).filter(|time| **time > 0) {
            let _ = write!(
                about,
                "{}ran {:.1} µs",
                if about.is_empty() { "" } else { ", " },
                time as f64 / 1e3
            );
        }
        let (x, y) = (x(at), y(at));
        let _ = writeln!(
            page,
            "<g class={class}><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\"/>\
             <text x=\"{tx}\" y=\"{ty}\">{}</text><text class=about x=\"{tx}\" y=\"{ta}\">{}</text></g>",
            escape(&node.lines(seen).join("\n")),
            escape(&node.label),
            escape(&about),
            tx = x + 10,
            ty = y + 23,
            ta = y + 43,
        );
    }
    page.push_str("</svg></main></html>\n");
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
