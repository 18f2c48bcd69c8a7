import Broker

/// The purpose of a subkey.
///
/// Each has an HKDF label of its own, so that two purposes share no key (SEC-110).
enum Purpose {
    case seal(SealedKind)
    case index(IndexKind)
    case sessionToken

    /// The HKDF `info`.
    ///
    /// Changing one loses every row made under it.
    var label: [UInt8] {
        switch self {
        case .seal(let kind): Array("coatcheck/v1/seal/\(kind.rawValue)".utf8)
        case .index(let kind): Array("coatcheck/v1/index/\(kind.rawValue)".utf8)
        case .sessionToken: Array("coatcheck/v1/session-token".utf8)
        }
    }
}

extension SealedKind {
    /// The byte that stands for it in the associated data.
    ///
    /// Append only.
    var tag: UInt8 {
        switch self {
        case .login: 1
        case .session: 2
        case .tokens: 3
        case .registration: 4
        case .outcome: 5
        case .outbox: 6
        }
    }
}
