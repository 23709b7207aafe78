//! The figures for the eye: one file of HTML with its plots in it.

use super::summary::Summary;

/// The page.
pub(super) fn html(summary: &Summary) -> String {
    format!("<!doctype html><pre>{summary}</pre>")
}
