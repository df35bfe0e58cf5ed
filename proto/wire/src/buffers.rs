//! Messages of services in small buffers.

use prost::Message;
use std::fmt;
use std::marker::PhantomData;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::ProstCodec;

/// Encodes and decodes as [`ProstCodec`] does, but in buffers that start small and grow.
///
/// A stream keeps two buffers while it is open, of 8 KiB each if nothing else is said. Most messages are far smaller.
pub(crate) struct SmallCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> SmallCodec<T, U> {
    /// Initial size of a buffer: reports and answers of a few keys fit.
    const BEGINS_WITH: usize = 1_024;

    /// Number of bytes after which a stream yields to others.
    const YIELDS_AFTER: usize = 32 * 1_024;

    fn settings() -> BufferSettings {
        BufferSettings::new(Self::BEGINS_WITH, Self::YIELDS_AFTER)
    }
}

impl<T, U> Default for SmallCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> fmt::Debug for SmallCodec<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmallCodec").finish()
    }
}

impl<T, U> Codec for SmallCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = <ProstCodec<T, U> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(Self::settings())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(Self::settings())
    }
}
