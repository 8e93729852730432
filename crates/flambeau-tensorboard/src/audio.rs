//! Sound, as a WAV file.

use crate::proto::{Audio, Value};
use crate::summary::value;
use flambeau_core::settings::determinism::warn;
use flambeau_core::{Result, Tensor, ensure};

/// One channel of 16 bits: RIFF, a format chunk, a data chunk.
fn wav(samples: &[i16], rate: u32) -> Result<Vec<u8>> {
    let Some(bytes) = u32::try_from(samples.len() * 2).ok().filter(|n| *n <= u32::MAX - 36) else {
        flambeau_core::bail!(Value, "{} samples do not fit into a WAV file", samples.len());
    };
    let mut out = Vec::with_capacity(44 + samples.len() * 2);
    out.extend_from_slice(b"RIFF");
    out.extend_from_slice(&(36 + bytes).to_le_bytes());
    out.extend_from_slice(b"WAVEfmt ");
    out.extend_from_slice(&16u32.to_le_bytes());
    // PCM, one channel
    out.extend_from_slice(&[1, 0, 1, 0]);
    out.extend_from_slice(&rate.to_le_bytes());
    out.extend_from_slice(&rate.saturating_mul(2).to_le_bytes());
    // bytes and bits of a frame
    out.extend_from_slice(&[2, 0, 16, 0]);
    out.extend_from_slice(b"data");
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend(samples.iter().flat_map(|s| s.to_le_bytes()));
    Ok(out)
}

pub fn make(tag: &str, sound: &Tensor, rate: u32) -> Result<Value> {
    let mut samples = sound.try_to_vec::<f32>()?;
    if samples.iter().any(|s| s.abs() > 1.0) {
        warn("audio amplitude out of range, auto clipped.");
        samples.iter_mut().for_each(|s| *s = s.clamp(-1.0, 1.0));
    }
    let long = sound.sizes().iter().filter(|n| **n != 1).count();
    ensure!(long == 1, Assertion, "input tensor should be 1 dimensional.");
    let samples: Vec<i16> = samples.iter().map(|s| (s * f32::from(i16::MAX)) as i16).collect();
    let audio = Audio {
        sample_rate: rate as f32,
        num_channels: 1,
        length_frames: samples.len() as i64,
        encoded_audio_string: wav(&samples, rate)?,
        content_type: "audio/wav".into(),
    };
    Ok(Value { audio: Some(audio), ..value(tag) })
}
