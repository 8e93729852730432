//! What NVRTC's assembler says of sources that include files of `kernels/`: the program behind `cargo xtask kernels --report`.
//! Arguments: an architecture (`sm_90`) and files.

#![forbid(unsafe_code)]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let architecture = args.next().ok_or("usage: assembled ARCHITECTURE FILE...")?;
    for path in args {
        let said = flambeau_cuda::assembled(&std::fs::read_to_string(&path)?, &architecture);
        println!("file {path}\n{}", said.map_err(|e| format!("{path}: {}", e.message()))?);
    }
    Ok(())
}
