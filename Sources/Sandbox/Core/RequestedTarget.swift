/// The API that a token is requested for: `resource` (RFC 8707), `audience` (RFC 8693) and `scope`.
struct RequestedTarget: Sendable {
    /// The parameters that may occur more than once.
    static let repeatable: Set<String> = ["resource", "audience"]

    let resources: [String]
    let audiences: [String]
    let scope: String?

    /// Reads the target of a request.
    ///
    /// `isScoped` is false if a code is redeemed, because the scope then comes from the authorization request.
    init(_ form: Pairs, isScoped: Bool = true) {
        resources = form.values("resource")
        audiences = form.values("audience")
        scope = isScoped ? form["scope"] : nil
    }

    /// Whether the request names no API.
    var isEmpty: Bool { resources.isEmpty && audiences.isEmpty && scope == nil }

    /// Refuses a resource that is not an absolute URI, or has a fragment (RFC 8707 section 2).
    func checkForm() throws(OAuthFailure) {
        for resource in resources {
            let parts = resource.split(separator: ":", maxSplits: 1)
            guard parts.count == 2, parts[0].allSatisfy(\.isLetter), !resource.contains("#") else {
                throw OAuthFailure(
                    error: "invalid_target", description: "resource is no absolute URI, or has a fragment")
            }
        }
    }

    /// Refuses a target that the grant does not cover: a resource that the authorization request did not name, or a wider
    /// scope.
    func check(_ call: Call, of grant: Grant) throws(OAuthFailure) {
        try checkForm()
        if let fault = call.faults["refused-target"], !isEmpty {
            throw OAuthFailure(error: fault.value?.text ?? "invalid_target", description: "told to refuse it")
        }
        if call.settings.text("resources") == "granted", !Set(resources).isSubset(of: grant.resources) {
            throw OAuthFailure(error: "invalid_target", description: "the grant is for other resources")
        }
        if let scope, !Set(scope.split(separator: " ").map(String.init)).isSubset(of: grant.scopes) {
            throw OAuthFailure(error: "invalid_scope", description: "wider than what was granted")
        }
    }

    /// The audience of a token for this target: the named resources and audiences, or else the sandbox's `/api`.
    func audience(_ call: Call) -> [String] {
        let named = call.settings.text("resources") == "ignored" ? [] : resources + audiences
        return named.isEmpty ? [call.baseURL + "/api"] : named
    }
}
