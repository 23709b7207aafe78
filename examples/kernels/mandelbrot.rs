//! A kernel renders the Mandelbrot set into an array of this process; the picture goes to `mandelbrot.png`.
//!
//! `cargo run --release --features kernel --example mandelbrot`

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;

use cachelift::config::Config;
use cachelift::kernel::Session;
use cachelift::store::Store;
use ndarray::Array2;

fn main() -> Result<(), Box<dyn Error>> {
    let mut session = Session::new(Store::open(Config::from_env()?))?;
    session.load(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels/mandelbrot.py"))?;

    let (height, width) = (600, 800);
    let mut pixels = Array2::<u8>::zeros((height, width));
    let render = session.function("render")?;
    render.call_with(&mut [(&mut pixels).into(), 100_i64.into()])?;

    let file = BufWriter::new(File::create("mandelbrot.png")?);
    let mut encoder = png::Encoder::new(file, width as u32, height as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(pixels.as_slice().expect("a fresh array is dense"))?;

    for unit in session.used() {
        println!("{}{}: {} in {} µs", unit.name, unit.signature, unit.origin, unit.us);
    }
    Ok(())
}
