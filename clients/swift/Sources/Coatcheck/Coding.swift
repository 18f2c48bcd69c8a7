import Foundation

/// The coding of the broker's JSON.
enum Coding {
    /// Returns a decoder for the broker's bodies.
    static func decoder() -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        return decoder
    }
}
