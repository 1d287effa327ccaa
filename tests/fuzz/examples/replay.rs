//! Runs a fuzz target on files: `replay TARGET FILE...`.

fn main() {
    let mut arguments = std::env::args().skip(1);
    let target = arguments.next().unwrap_or_default();
    let Some((_, run)) = libtp_fuzz::TARGETS.into_iter().find(|(name, _)| *name == target) else {
        eprintln!("usage: replay TARGET FILE...");
        std::process::exit(2);
    };
    for file in arguments {
        let input = std::fs::read(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        println!("{file}");
        run(&input);
    }
}
