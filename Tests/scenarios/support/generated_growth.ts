import { SessionFromJSON, ProblemFromJSON } from './typescript-fetch/models';

/** Prints answers of a later minor version as the generated types decode them. */
export function growth(text: string): string {
    const later = JSON.parse(text);
    const problem = ProblemFromJSON(later.problem);
    return [SessionFromJSON(later.session).handle, problem.code, problem.reason].join(' ');
}
