/// The reason why a key file or a change of the keys was refused.
///
/// The text names a place in the file or a key's id, and omits the keys (SEC-110).
package enum KeyRingFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The file differs from the expected JSON. `byte` is the offset of the fault.
    case notJSON(reason: String, byte: Int)
    case unsupportedVersion
    /// A member is missing, unknown or of the wrong type. The associated text is the member's JSON pointer.
    case member(String)
    /// The key at this place is not base64url without padding.
    case notBase64URL(place: String)
    case wrongLength(place: String, bytes: Int)
    /// All bytes of the key are equal.
    case weakKey(place: String)
    case noKeys
    case tooManyKeys
    case duplicateID(String)
    case sameKeyTwice(String, String)
    /// The key's start time is in the future. Until then, the ring refuses to remove it and to add a newer key.
    case waits(String, until: String)
    /// The key is the sealing key, so the ring refuses to remove it.
    case seals(String)
    case unknownID(String)
    /// The random generator failed.
    case noRandomness

    package var description: String {
        switch self {
        case .notJSON(let reason, let byte): "the key file is not JSON (\(reason) at byte \(byte))"
        case .unsupportedVersion: "the key file's version is not 1"
        case .member(let pointer): "the key file's member \(pointer) is missing, unknown or of the wrong type"
        case .notBase64URL(let place): "the key \(place) is not unpadded base64url"
        case .wrongLength(let place, let bytes): "the key \(place) has \(bytes) bytes; it must have 32"
        case .weakKey(let place): "the key \(place) is one byte repeated, not a random key"
        case .noKeys: "the key file has no keys"
        case .tooManyKeys: "the key file has more than \(KeyRing.maximumKeys) keys"
        case .duplicateID(let id): "two keys have the id \(id)"
        case .sameKeyTwice(let first, let second): "the keys \(first) and \(second) are the same"
        case .waits(let id, let until): "the key \(id) waits until \(until), when it begins to seal"
        case .seals(let id): "the key \(id) seals: rotate first"
        case .unknownID(let id): "there is no key \(id)"
        case .noRandomness: "the random generator failed"
        }
    }
}
