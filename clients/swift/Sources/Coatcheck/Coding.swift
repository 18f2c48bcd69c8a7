import Foundation

/// How JSON is read.
enum Coding {
    /// Returns a decoder for the broker's bodies.
    static func decoder() -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        return decoder
    }
}
