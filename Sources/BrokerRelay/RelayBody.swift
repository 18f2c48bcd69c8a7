package import NIOCore

/// An upstream's response body, streamed with back-pressure: the next chunk is read when it is asked for.
///
/// Throws when the upstream breaks off or says nothing for the read timeout; the app's connection must then be cut, not
/// ended.
package struct RelayBody: AsyncSequence, Sendable {
    package typealias Element = ByteBuffer

    let base: UpstreamResponse?
    let gate: BodyGate?
    let place: UpstreamConcurrency.Place

    package struct AsyncIterator: AsyncIteratorProtocol {
        var base: UpstreamResponse.AsyncIterator?
        let gate: BodyGate?
        let place: UpstreamConcurrency.Place

        package mutating func next() async throws -> ByteBuffer? {
            do {
                if let chunk = try await base?.next() { return chunk }
            } catch {
                base = nil
                await gate?.close()
                throw error
            }
            base = nil
            await gate?.close()
            return nil
        }
    }

    package func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(base: base?.makeAsyncIterator(), gate: gate, place: place)
    }
}
