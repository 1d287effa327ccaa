//! Writes the inputs with which a fuzzer starts into the corpus.

use libtp_fuzz::world::World;
use libtp_fuzz::{corpus, seeds};

fn main() -> std::io::Result<()> {
    let world = World::new();
    let all = [
        ("page", seeds::pages(&world)),
        ("log_record", seeds::log_records(&world)),
        ("log_file", seeds::logs(&world)),
        ("control", seeds::controls()),
        ("dump_text", seeds::dumps()),
        ("settings", seeds::settings()),
    ];
    for (target, seeds) in all {
        let folder = corpus::folder(target);
        std::fs::create_dir_all(&folder)?;
        let bytes: usize = seeds.iter().map(|(_, bytes)| bytes.len()).sum();
        println!("{target}: {} inputs of {bytes} bytes", seeds.len());
        for (name, bytes) in seeds {
            std::fs::write(folder.join(format!("seed-{name}")), bytes)?;
        }
    }
    Ok(())
}
