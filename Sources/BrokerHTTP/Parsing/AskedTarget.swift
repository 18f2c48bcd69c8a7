import Broker

/// The API that a token exchange requests a token for, from the fields of RFC 8693 section 2.1.
struct AskedTarget: Sendable {
    /// The field that may be repeated.
    static let repeatable = "resource"

    private let resources: [String]
    private let audience: String?
    private let scope: [String]

    init(_ form: inout RequestForm) {
        resources = form.list(Self.repeatable, maximum: 2048, count: 8)
        audience = form.text("audience", required: false, maximum: 512, where: RequestText.isASCIIText)
        let words = form.optional("scope", maximum: 4096, where: RequestText.isScopeList)
        scope = words?.split(separator: " ").map(String.init) ?? []
    }

    /// Whether the request names no API and therefore asks for the session's own token.
    var isEmpty: Bool { resources.isEmpty && audience == nil && scope.isEmpty }

    /// Returns the listed target that equals the requested target in all parts.
    ///
    /// For example, the scope of one listed target and the audience of another are not a match.
    func among(_ targets: [TokenTarget]) -> TokenTarget? {
        targets.first { target in
            Self.isSame(resources, target.resources) && Self.isSame(scope, target.scope)
                && audience.map { target.audience?.hasBytes(of: $0) ?? false } ?? (target.audience == nil)
        }
    }

    /// Returns whether two lists contain the same texts, byte for byte, in any order.
    private static func isSame(_ left: [String], _ right: [String]) -> Bool {
        func bytes(_ texts: [String]) -> Set<[UInt8]> { Set(texts.map { Array($0.utf8) }) }
        return left.count == right.count && bytes(left) == bytes(right)
    }
}
