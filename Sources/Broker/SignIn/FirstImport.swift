/// Makes an import with an operator's own tokens, to show that a client's settings are right.
///
/// The import ends before its session is made. If the provider grants it, the broker records the client's first granted import.
/// A later `invalid_grant` then proves that a token is dead (decision 102).
package struct FirstImport: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// The tokens to import, and the client that they belong to.
    package struct Order: Sendable {
        package var provider: ProviderName
        package var client: ClientName?
        package var tokens: ImportedTokens

        package init(provider: ProviderName, client: ClientName?, tokens: ImportedTokens) {
            self.provider = provider
            self.client = client
            self.tokens = tokens
        }
    }

    /// The result of the import.
    package struct Result: Sendable, Equatable {
        /// The user whom the tokens belong to; nil if the import failed.
        package var subject: String?
        /// The result as a sentence for the operator, which is free of tokens.
        package var detail: String

        package init(subject: String?, detail: String) {
            self.subject = subject
            self.detail = detail
        }
    }

    /// Makes the import, after a record for the audit; `actor` is the name in this record.
    package func run(_ order: Order, actor: String) async throws(BrokerProblem) -> Result {
        let target = [order.provider.text, order.client?.text].compactMap { $0 }.joined(separator: "/")
        try await AdminSessions(context).audit("first_import", target: target, actor: actor)
        let trial = ImportTrial()
        var input = ForwardCodeInput()
        (input.provider, input.client, input.tokens) = (order.provider, order.client, order.tokens)
        let plan: ExchangePlan
        do throws(BrokerProblem) {
            plan = try await ImportForward(context: context).plan(order.tokens, input, trial: trial)
            try ForwardCode.checkBeforeSpending(plan, .tokens(order.tokens))
            try context.requireRing()
        } catch { return refused(error, trial) }
        do throws(BrokerProblem) {
            _ = try await ExchangeRunner(context: context).run(plan)
            // The row has a session, and the app sent the same starter's secret. The session stays the app's.
            throw BrokerProblem(.codeAlreadyUsed)
        } catch {
            guard let subject = trial.course.subject else { return refused(error, trial) }
            return await granted(subject, plan)
        }
    }

    private func refused(_ problem: BrokerProblem, _ trial: ImportTrial) -> Result {
        Result(subject: nil, detail: FirstImportWords.words(problem, trial.course))
    }

    /// Makes sure that the grant is recorded, because an import goes on if its own attempt fails.
    private func granted(_ subject: String, _ plan: ExchangePlan) async -> Result {
        guard let provider = plan.provider as? any TokenImporting, provider.spendsImportedTokens else {
            return Result(subject: subject, detail: FirstImportWords.confirmed)
        }
        let proof = ImportProof(
            context: context, provider: plan.provider.profile.name, clientID: provider.clientID(of: plan.client.name))
        do throws(StoreFailure) {
            try await proof.note()
            return Result(subject: subject, detail: FirstImportWords.granted)
        } catch { return Result(subject: nil, detail: FirstImportWords.unrecorded) }
    }
}
