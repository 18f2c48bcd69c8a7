/// Is where a provider's identity comes from (`identity`): the source, and a JSON pointer per member.
struct IdentitySection: Sendable {
    enum Source: String, Sendable, CaseIterable { case idToken = "id_token", userinfo, api }

    let source: Source?
    let url: String?
    /// The pointer of the subject.
    let subject: String?
    /// The pointers of the further members, by the member's name (`name`, `email`, …).
    let members: [(name: String, pointer: String)]

    init(_ section: ConfigSection) {
        source = section.choice("source")
        url = section.endpoint("url")
        subject = section.pointer("subject")
        var members: [(name: String, pointer: String)] = []
        // `name` and `email` are the ones that every answer knows; the others are the operator's to name.
        let further = section.keys.filter { !["source", "url", "subject", "name", "email"].contains($0) }
        for name in ["name", "email"] + further {
            guard further.contains(name) ? Self.isMember(name) : true else { continue }
            if let pointer = section.pointer(name) { members.append((name, pointer)) }
        }
        self.members = members
        if source == .api, url == nil, section.has("source") { section.report(nil, "needs `url` when its source is `api`") }
    }

    private static func isMember(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x5F }
    }
}
